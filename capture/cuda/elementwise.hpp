// Kernels that work on each value or pair of values alone.
#pragma once

#include <cmath>

#include "capture/activation.hpp"
#include "capture/cuda/block.hpp"

namespace kvreplay::cuda {

/// What the following kernels share: one thread for each of `items()` things.
template <class Kernel>
struct Elementwise {
  static constexpr std::uint32_t kThreads = 256;

  Grid grid() const {
    const std::uint64_t items = static_cast<const Kernel&>(*this).items();
    return {static_cast<std::uint32_t>(divide_up(items, std::uint64_t{kThreads})), 1, 1};
  }
  std::size_t shared_bytes() const { return 0; }

  template <class Block>
  KVREPLAY_DEVICE void operator()(Block& block) const {
    block.phase([&](std::uint32_t thread) {
      const auto& kernel = static_cast<const Kernel&>(*this);
      const std::uint64_t item = std::uint64_t{block.index().x} * kThreads + thread;
      if (item < kernel.items()) kernel.run(item);
    });
  }
};

/// Copies the vectors of chosen heads, one behind the other: [chosen][row][size].
struct Gather : Elementwise<Gather> {
  const float* from = nullptr;  ///< [head][head_stride] of [row][row_stride]
  std::uint64_t head_stride = 0;
  std::uint64_t row_stride = 0;
  const std::uint32_t* heads = nullptr;  ///< [chosen]
  std::uint32_t chosen = 0;
  std::uint32_t rows = 0;
  std::uint32_t size = 0;
  float* to = nullptr;

  KVREPLAY_HOST_DEVICE std::uint64_t items() const { return std::uint64_t{chosen} * rows * size; }
  KVREPLAY_DEVICE void run(std::uint64_t item) const {
    const std::uint64_t row = item / size % rows;
    const std::uint64_t head = heads[item / size / rows];
    to[item] = from[head * head_stride + row * row_stride + item % size];
  }
};

/// The activation of `size` values of each token, times the `size` behind them where it is gated;
/// into the place of the first.
struct Activate : Elementwise<Activate> {
  Activation activation = Activation::silu;
  bool gated = true;
  float* values = nullptr;  ///< [tokens][size, or 2 * size]
  std::uint32_t tokens = 0;
  std::uint32_t size = 0;

  KVREPLAY_HOST_DEVICE std::uint64_t items() const { return std::uint64_t{tokens} * size; }
  KVREPLAY_DEVICE void run(std::uint64_t item) const {
    float* value = values + item / size * (gated ? 2 : 1) * size + item % size;
    const float active = activate(activation, *value);
    *value = gated ? active * value[size] : active;
  }
};

/// Adds a row to each token's `size` values, times `scale` before: a bias, positions, a residual.
struct AddRows : Elementwise<AddRows> {
  float* to = nullptr;  ///< [token][to_stride]
  std::uint64_t to_stride = 0;
  float scale = 1;
  const float* rows = nullptr;   ///< [token][row_stride]; null: nothing is added
  std::uint64_t row_stride = 0;  ///< 0: the same for all
  std::uint32_t tokens = 0;
  std::uint32_t size = 0;

  KVREPLAY_HOST_DEVICE std::uint64_t items() const { return std::uint64_t{tokens} * size; }
  KVREPLAY_DEVICE void run(std::uint64_t item) const {
    const std::uint64_t token = item / size;
    const std::uint64_t i = item % size;
    float& value = to[token * to_stride + i];
    value = value * scale + (rows == nullptr ? 0.0F : rows[token * row_stride + i]);
  }
};

/// Turns the vectors of `heads` heads by the angles of their positions; in place, or into the cache
/// that attention reads. Values past `dimensions` are copied, with dimensions = 0 all of them.
struct Rope : Elementwise<Rope> {
  const float* from = nullptr;  ///< [token][from_stride], one head behind the other
  std::uint64_t from_stride = 0;
  float* to = nullptr;  ///< [head][to_head_stride] of [token][to_stride]
  std::uint64_t to_stride = 0;
  std::uint64_t to_head_stride = 0;
  const float* turns = nullptr;  ///< [position][dimensions / 2](cosine, sine): RopeTable::turns()
  std::uint32_t position = 0;    ///< of the first token
  std::uint32_t tokens = 0;
  std::uint32_t heads = 0;
  std::uint32_t head_size = 0;
  std::uint32_t dimensions = 0;
  bool neox = false;  ///< pairs (i, i + dimensions / 2), else (2i, 2i + 1)

  /// Pairs, then the values that stay.
  KVREPLAY_HOST_DEVICE std::uint32_t items_per_head() const { return head_size - dimensions / 2; }
  KVREPLAY_HOST_DEVICE std::uint64_t items() const {
    return std::uint64_t{tokens} * heads * items_per_head();
  }
  KVREPLAY_DEVICE void run(std::uint64_t item) const {
    const auto i = static_cast<std::uint32_t>(item % items_per_head());
    const std::uint64_t head = item / items_per_head() % heads;
    const std::uint64_t token = item / items_per_head() / heads;
    const float* source = from + token * from_stride + head * head_size;
    float* target = to + head * to_head_stride + token * to_stride;
    const std::uint32_t pairs = dimensions / 2;
    if (i >= pairs) {
      target[i + pairs] = source[i + pairs];
      return;
    }
    const float* turn = turns + ((position + token) * pairs + i) * 2;
    const std::uint32_t first = neox ? i : 2 * i;
    const std::uint32_t second = neox ? i + pairs : 2 * i + 1;
    const float x = source[first];
    const float y = source[second];
    target[first] = x * turn[0] - y * turn[1];
    target[second] = x * turn[1] + y * turn[0];
  }
};

}  // namespace kvreplay::cuda
