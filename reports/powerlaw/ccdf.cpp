#include "reports/powerlaw/ccdf.hpp"

#include <cmath>

namespace kvreplay::powerlaw {

std::vector<CcdfPoint> ccdf_of(const Sample& sample) {
  std::vector<CcdfPoint> points;
  if (sample.distinct() == 0) return points;
  const auto all = static_cast<double>(sample.size());
  const auto share = [&](std::size_t at) {
    return 1 - static_cast<double>(sample.below[at]) / all;
  };
  const std::size_t last = sample.distinct() - 1;
  const double width = sample.logs[last] - sample.logs[0];
  const double height = -std::log(share(last));
  const auto part = [](double of, double whole) { return whole > 0 ? of / whole : 0; };
  std::size_t kept = 0;
  for (std::size_t at = 0; at <= last; ++at) {
    const double way = part(sample.logs[at] - sample.logs[kept], width) +
                       part(std::log(share(kept)) - std::log(share(at)), height);
    if (at > 0 && at < last && way < kCcdfStep) continue;
    points.push_back({sample.values[at], share(at)});
    kept = at;
  }
  return points;
}

}  // namespace kvreplay::powerlaw
