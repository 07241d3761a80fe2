#include "reports/bounded_cells.hpp"

#include <algorithm>

namespace kvreplay {
namespace {

using nlohmann::json;

std::string reason(const json& cell, const json& manifest) {
  const auto& axes = cell.at("axes");
  const auto is = [&](const char* axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  if (is("nothing leaves for good")) return "nothing leaves its cache for good";
  if (!cell.at("unit_tokens").empty()) return "its heads are dealt budgets of their own";
  const bool sees_itself = !is("V_i: k tokens once full, without the newcomer");
  const auto held =
      cell.at("budget_tokens").get<std::uint64_t>() - (manifest.at("match") == "visible" ? 1 : 0);
  if (cell.at("most_visible").get<std::uint64_t>() > held + (sees_itself ? 1 : 0)) {
    return "its queries may see more than the budget shows";
  }
  if (is("the prompt attended in full") && manifest.at("prefill") != "full") {
    return "it attends the prompt in full, and the optimum is of one that streams in";
  }
  return "";
}

}  // namespace

BoundedCells::BoundedCells(const json& manifest) {
  const auto cells = manifest.find("cells");
  if (cells == manifest.end() || !cells->is_array()) return;
  for (const auto& cell : *cells) {
    try {
      reasons_.insert_or_assign(Place(cell.at("trace"), cell.at("policy"), cell.at("parameters"),
                                      cell.at("budget_tokens").get<std::uint64_t>()),
                                reason(cell, manifest));
    } catch (const json::exception&) {  // does not say enough of the cell
      continue;
    }
  }
}

std::string BoundedCells::why_not(std::string_view trace, std::string_view policy,
                                  std::string_view parameters, std::uint32_t tokens) const {
  const auto found = reasons_.find(
      Place(std::string(trace), std::string(policy), std::string(parameters), tokens));
  return found == reasons_.end() ? "the manifest does not say what bounds it" : found->second;
}

}  // namespace kvreplay
