#include "capture/stored_tensor.hpp"

#include <functional>
#include <numeric>

namespace kvreplay {

std::uint64_t StoredTensor::values() const {
  return std::accumulate(dims.begin(), dims.end(), std::uint64_t{1}, std::multiplies<>());
}

std::string dims_text(std::span<const std::uint64_t> dims) {
  std::string out = "{";
  for (const std::uint64_t dim : dims) {
    if (out.size() > 1) out += ", ";
    out += std::to_string(dim);
  }
  return out + "}";
}

}  // namespace kvreplay
