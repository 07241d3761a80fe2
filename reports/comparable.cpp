#include "reports/comparable.hpp"

namespace kvreplay {

std::string_view bound_of(std::string_view policy) {
  if (policy == "topk-row" || policy == "recoverable") return "recoverable";
  if (policy == "optimum") return "optimum";
  if (policy == "full") return "full";
  return "";
}

bool sees_too_many(double mean_visible, std::uint32_t budget) {
  return mean_visible > budget + 1.0 + 1e-9;
}

}  // namespace kvreplay
