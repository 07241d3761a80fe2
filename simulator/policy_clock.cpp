#include "simulator/policy_clock.hpp"

#include <algorithm>
#include <array>

namespace kvreplay {
namespace {

using Nanoseconds = std::chrono::duration<double, std::nano>;

/// What a lap around nothing shows, in nanoseconds: the median of many.
double empty_lap() {
  std::array<double, 1001> laps;
  for (auto& lap : laps) {
    const auto start = std::chrono::steady_clock::now();
    lap = Nanoseconds(std::chrono::steady_clock::now() - start).count();
  }
  std::nth_element(laps.begin(), laps.begin() + laps.size() / 2, laps.end());
  return laps[laps.size() / 2];
}

}  // namespace

double PolicyClock::taken() {
  static const double overhead = empty_lap();
  const double net = Nanoseconds(spent_).count() - laps_ * overhead;
  spent_ = {};
  laps_ = 0;
  return std::max(0.0, net);
}

}  // namespace kvreplay
