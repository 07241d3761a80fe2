// The length of a vector.
#pragma once

#include <cmath>
#include <span>

namespace kvreplay {

/// The Euclidean norm, summed in double and in order: the same on every machine where it is
/// compiled without contraction to fused multiply-adds, and within one rounding of it elsewhere.
inline float norm(std::span<const float> vector) {
  double sum = 0;
  for (const float x : vector) sum += static_cast<double>(x) * static_cast<double>(x);
  return static_cast<float>(std::sqrt(sum));
}

}  // namespace kvreplay
