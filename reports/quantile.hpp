// The one definition of quantiles, as simulator/RESULTS.md has it.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace kvreplay {

/// The smallest of the sorted values that at least the share `q` of them do not exceed. There is
/// at least one.
inline double quantile(std::span<const double> sorted, double q) {
  const auto at = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(at, 1) - 1];
}

}  // namespace kvreplay
