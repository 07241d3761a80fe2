#include "reports/powerlaw/concentration.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvreplay::powerlaw {

double gini(std::span<const double> sorted) {
  const auto n = static_cast<double>(sorted.size());
  double sum = 0;
  double ranked = 0;
  for (std::size_t at = 0; at < sorted.size(); ++at) {
    sum += sorted[at];
    ranked += (2 * static_cast<double>(at + 1) - n - 1) * sorted[at];
  }
  return sum > 0 ? ranked / (n * sum) : 0;
}

double top_share(std::span<const double> sorted, double part) {
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  if (!(sum > 0)) return 0;
  // As a budget in percent: 1e-9 keeps 0.29 * 100 at 29.
  const double top = std::floor(part * static_cast<double>(sorted.size()) + 1e-9);
  const auto taken = std::min(sorted.size(), static_cast<std::size_t>(std::max(top, 1.0)));
  return std::accumulate(sorted.end() - static_cast<std::ptrdiff_t>(taken), sorted.end(), 0.0) /
         sum;
}

}  // namespace kvreplay::powerlaw
