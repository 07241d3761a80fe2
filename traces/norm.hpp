// The length of a vector.
#pragma once

#include <cmath>
#include <span>

namespace kvreplay {

/// The Euclidean norm, summed in double and in order. Squares of floats are exact in double, so it
/// is the same on every machine, with fused multiply-adds or without.
inline float norm(std::span<const float> vector) {
  double sum = 0;
  for (const float x : vector) sum += static_cast<double>(x) * static_cast<double>(x);
  return static_cast<float>(std::sqrt(sum));
}

}  // namespace kvreplay
