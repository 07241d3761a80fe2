// Layer normalisation, one block a token.
#pragma once

#include <cmath>

#include "capture/cuda/block.hpp"

namespace kvreplay::cuda {

struct LayerNorm {
  static constexpr std::uint32_t kThreads = 256;

  const float* from = nullptr;  ///< [token][size]
  float* to = nullptr;          ///< [token][size]; may be `from`
  const float* gain = nullptr;  ///< [size]
  const float* bias = nullptr;  ///< [size]
  std::uint32_t tokens = 0;
  std::uint32_t size = 0;
  double epsilon = 0;

  Grid grid() const { return {tokens, 1, 1}; }
  std::size_t shared_bytes() const { return 2 * shared_size<float>(kThreads); }

  template <class Block>
  KVREPLAY_DEVICE void operator()(Block& block) const {
    const float* in = from + std::uint64_t{block.index().x} * size;
    float* out = to + std::uint64_t{block.index().x} * size;
    float* sums = block.template shared<float>(kThreads);
    float* squares = block.template shared<float>(kThreads);
    block.phase([&](std::uint32_t thread) {
      float sum = 0;
      for (std::uint32_t i = thread; i < size; i += kThreads) sum += in[i];
      sums[thread] = sum;
    });
    block_sum<kThreads>(block, sums);
    // The variance about the mean, not from the squares: a large mean would swallow it.
    block.phase([&](std::uint32_t thread) {
      const float mean = sums[0] / static_cast<float>(size);
      float sum = 0;
      for (std::uint32_t i = thread; i < size; i += kThreads)
        sum += (in[i] - mean) * (in[i] - mean);
      squares[thread] = sum;
    });
    block_sum<kThreads>(block, squares);
    block.phase([&](std::uint32_t thread) {
      if (thread != 0) return;  // once: double is slow on most devices
      sums[0] = sums[0] / static_cast<float>(size);
      squares[0] =
          static_cast<float>(1 / std::sqrt(static_cast<double>(squares[0]) / size + epsilon));
    });
    block.phase([&](std::uint32_t thread) {
      for (std::uint32_t i = thread; i < size; i += kThreads)
        out[i] = (in[i] - sums[0]) * squares[0] * gain[i] + bias[i];
    });
  }
};

}  // namespace kvreplay::cuda
