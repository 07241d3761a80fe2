#include "capture/rope.hpp"

#include <cmath>

namespace kvreplay {

RopeTable::RopeTable(const RopeConfig& config, std::uint32_t positions)
    : pairs_(config.dimensions / 2),
      kind_(config.pairs),
      turns_(std::size_t{positions} * config.dimensions) {
  for (std::uint32_t pair = 0; pair < pairs_; ++pair) {
    double frequency = config.scale * std::pow(config.theta, -2.0 * pair / config.dimensions);
    if (!config.divisors.empty()) frequency /= config.divisors[pair];
    for (std::uint32_t position = 0; position < positions; ++position) {
      float* turn = &turns_[(std::size_t{position} * pairs_ + pair) * 2];
      turn[0] = static_cast<float>(config.magnitude * std::cos(position * frequency));
      turn[1] = static_cast<float>(config.magnitude * std::sin(position * frequency));
    }
  }
}

void RopeTable::rotate(float* vector, std::uint32_t position) const {
  const float* turn = turns_.data() + std::size_t{position} * pairs_ * 2;
  const bool halves = kind_ == RopePairs::halves;
  const std::uint32_t step = halves ? 1 : 2;
  const std::uint32_t partner = halves ? pairs_ : 1;
  for (std::uint32_t pair = 0; pair < pairs_; ++pair, vector += step, turn += 2) {
    const float x = vector[0];
    const float y = vector[partner];
    vector[0] = x * turn[0] - y * turn[1];
    vector[partner] = x * turn[1] + y * turn[0];
  }
}

}  // namespace kvreplay
