#include "simulator/outputs.hpp"

#include <algorithm>
#include <cmath>

namespace kvreplay {
namespace {

/// weight(s) and token(s) for s = 0 .. count - 1.
template <class Weight, class Token>
void mix(std::size_t count, Weight weight, Token token, std::span<const float> values, double sum,
         std::span<double> output) {
  std::fill(output.begin(), output.end(), 0.0);
  if (!(sum > 0)) return;
  const std::size_t size = output.size();
  double* const out = output.data();
  for (std::size_t s = 0; s < count; ++s) {
    const double w = weight(s);
    const float* const value = values.data() + token(s) * size;
    for (std::size_t k = 0; k < size; ++k) out[k] += w * static_cast<double>(value[k]);
  }
  for (double& number : output) number /= sum;
}

}  // namespace

void mix_values(std::span<const double> weights, std::span<const std::uint32_t> tokens,
                std::span<const float> values, double sum, std::span<double> output) {
  mix(
      tokens.size(), [&](std::size_t s) { return weights[s]; },
      [&](std::size_t s) { return std::size_t{tokens[s]}; }, values, sum, output);
}

void mix_values(std::span<const float> weights, std::span<const float> values, double sum,
                std::span<double> output) {
  mix(
      weights.size(), [&](std::size_t s) { return static_cast<double>(weights[s]); },
      [](std::size_t s) { return s; }, values, sum, output);
}

double output_error(std::span<const double> mixed, std::span<const double> output) {
  double error = 0;
  double length = 0;
  for (std::size_t k = 0; k < output.size(); ++k) {
    error += (mixed[k] - output[k]) * (mixed[k] - output[k]);
    length += output[k] * output[k];
  }
  if (length == 0) return error == 0 ? 0 : 1;
  return std::sqrt(error / length);
}

}  // namespace kvreplay
