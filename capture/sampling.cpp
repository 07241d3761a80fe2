#include "capture/sampling.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace kvreplay {
namespace {

using Logits = Eigen::Map<const Eigen::ArrayXf>;

Logits as_array(std::span<const float> logits) {
  return {logits.data(), static_cast<Eigen::Index>(logits.size())};
}

}  // namespace

double log_probability(std::span<const float> logits, std::uint32_t id) {
  const Logits all = as_array(logits);
  const float largest = all.maxCoeff();
  const double sum = (all - largest).exp().cast<double>().sum();
  return logits[id] - largest - std::log(sum);
}

Sampler::Sampler(double temperature, std::uint64_t seed)
    : temperature_(temperature), generator_(seed) {
  if (!(temperature >= 0) || !std::isfinite(temperature))
    throw std::invalid_argument("the temperature must be 0 (greedy) or a positive number");
}

std::uint32_t Sampler::choose(std::span<const float> logits) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (temperature_ == 0) return static_cast<std::uint32_t>(largest - logits.begin());

  const Eigen::ArrayXd weights =
      ((as_array(logits).cast<double>() - static_cast<double>(*largest)) / temperature_).exp();
  // 53 random bits in [0, 1): the standard's distributions differ between libraries.
  const double draw = static_cast<double>(generator_() >> 11) * 0x1p-53 * weights.sum();
  double below = 0;
  for (Eigen::Index id = 0; id < weights.size(); ++id) {
    below += weights[id];
    if (draw < below) return static_cast<std::uint32_t>(id);
  }
  return static_cast<std::uint32_t>(largest - logits.begin());  // rounding of the sum
}

}  // namespace kvreplay
