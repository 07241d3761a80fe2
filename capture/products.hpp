// Matrix products with weights: Eigen within a thread, TBB across threads.
#pragma once

#include <cstdint>

namespace kvreplay {

/// A weight [out, in], row-major, as models store it.
struct Matrix {
  const float* data = nullptr;
  std::uint32_t out = 0;
  std::uint32_t in = 0;
  std::uint64_t values() const { return std::uint64_t{out} * in; }
};

/// Rows of activations, one token each, `stride` values apart.
struct Activations {
  float* data = nullptr;
  std::uint64_t stride = 0;
};

enum class Store { assign, add };

/// y [tokens, out] = or += x [tokens, in] * weight^T, on the threads of the current TBB arena.
/// x and y must not overlap.
void multiply(const Matrix& weight, Activations x, std::uint32_t tokens, Activations y,
              Store store);

}  // namespace kvreplay
