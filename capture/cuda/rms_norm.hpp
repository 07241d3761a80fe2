// Root-mean-square normalisation, one block a vector.
#pragma once

#include <cmath>

#include "capture/cuda/block.hpp"

namespace kvreplay::cuda {

struct RmsNorm {
  static constexpr std::uint32_t kThreads = 256;

  const float* from = nullptr;  ///< [token][stride], of which the first heads * size values
  float* to = nullptr;          ///< as from, and may be the same
  std::uint64_t stride = 0;
  const float* gain = nullptr;  ///< [size]
  std::uint32_t tokens = 0;
  std::uint32_t heads = 1;  ///< vectors of a token
  std::uint32_t size = 0;
  double epsilon = 0;

  Grid grid() const { return {tokens, heads, 1}; }
  std::size_t shared_bytes() const { return shared_size<float>(kThreads); }

  template <class Block>
  KVREPLAY_DEVICE void operator()(Block& block) const {
    const std::uint64_t place = block.index().x * stride + std::uint64_t{block.index().y} * size;
    const float* in = from + place;
    float* out = to + place;
    float* squares = block.template shared<float>(kThreads);
    block.phase([&](std::uint32_t thread) {
      float sum = 0;
      for (std::uint32_t i = thread; i < size; i += kThreads) sum += in[i] * in[i];
      squares[thread] = sum;
    });
    block_sum<kThreads>(block, squares);
    block.phase([&](std::uint32_t thread) {
      if (thread != 0) return;  // once: double is slow on most devices
      squares[0] =
          static_cast<float>(1 / std::sqrt(static_cast<double>(squares[0]) / size + epsilon));
    });
    block.phase([&](std::uint32_t thread) {
      const float scale = squares[0];
      for (std::uint32_t i = thread; i < size; i += kThreads) out[i] = in[i] * scale * gain[i];
    });
  }
};

}  // namespace kvreplay::cuda
