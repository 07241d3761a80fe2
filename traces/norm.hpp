// The lengths of vectors.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace kvreplay {

/// The Euclidean norm, summed in double and in order. Squares of floats are exact in double, so it
/// is the same on every machine, with fused multiply-adds or without.
inline float norm(std::span<const float> vector) {
  double sum = 0;
  for (const float x : vector) sum += static_cast<double>(x) * static_cast<double>(x);
  return static_cast<float>(std::sqrt(sum));
}

/// Fills `norms` with those of the vectors of `size` numbers each, of which `vectors` is made.
inline void take_norms(std::span<const float> vectors, std::size_t size,
                       std::vector<float>& norms) {
  norms.clear();
  for (std::size_t first = 0; first < vectors.size(); first += size)
    norms.push_back(norm(vectors.subspan(first, size)));
}

}  // namespace kvreplay
