// Joins the sums that the recording kernel leaves in parts, in a fixed order.
#pragma once

#include "capture/cuda/block.hpp"
#include "traces/trace.hpp"

namespace kvreplay::cuda {

/// Adds the columns of all row tiles, ascending, to what `sums` holds. One thread a head and key.
struct SumColumns {
  static constexpr std::uint32_t kThreads = 256;

  std::uint32_t first = 0;  ///< as in the launch that recorded
  std::uint32_t last = 0;
  std::uint32_t every = 1;
  std::uint32_t tile_rows = 0;  ///< its kTileRows
  std::uint32_t heads = 1;
  const float* columns = nullptr;
  std::uint64_t column_stride = 0;
  float* sums = nullptr;  ///< [head][sum_stride]
  std::uint64_t sum_stride = 0;

  Grid grid() const { return {divide_up(last, kThreads), heads, 1}; }
  std::size_t shared_bytes() const { return 0; }

  template <class Block>
  KVREPLAY_DEVICE void operator()(Block& block) const {
    block.phase([&](std::uint32_t thread) {
      const std::uint32_t key = block.index().x * kThreads + thread;
      if (key >= last) return;
      const std::uint64_t head = block.index().y;
      float sum = sums[head * sum_stride + key];
      // A tile has columns up to the end of its last row's padding.
      const auto block_begin =
          static_cast<std::uint32_t>(key / RowLayout::kBlock * RowLayout::kBlock);
      const std::uint32_t first_row =
          block_begin <= first ? 0 : divide_up(block_begin - first, every);
      const std::uint32_t rows = divide_up(last - first, every);
      const std::uint32_t tiles = first_row < rows ? divide_up(rows, tile_rows) : 0;
      for (std::uint64_t tile = first_row / tile_rows; tile < tiles; ++tile)
        sum += columns[(tile * heads + head) * column_stride + key];
      sums[head * sum_stride + key] = sum;
    });
  }
};

/// Joins the parts of all rows in the order of their keys. One thread a head and row.
struct SumRows {
  static constexpr std::uint32_t kThreads = 256;

  std::uint64_t count = 0;  ///< heads times rows
  std::uint32_t parts = 1;
  const float* part_sums = nullptr;  ///< [part][count]
  const float* part_largest = nullptr;
  float* sums = nullptr;     ///< [count]
  float* largest = nullptr;  ///< may be null, with the parts

  Grid grid() const {
    return {static_cast<std::uint32_t>(divide_up(count, std::uint64_t{kThreads})), 1, 1};
  }
  std::size_t shared_bytes() const { return 0; }

  template <class Block>
  KVREPLAY_DEVICE void operator()(Block& block) const {
    block.phase([&](std::uint32_t thread) {
      const std::uint64_t i = std::uint64_t{block.index().x} * kThreads + thread;
      if (i >= count) return;
      float sum = 0;
      float most = 0;
      for (std::uint32_t part = 0; part < parts; ++part) {
        sum += part_sums[part * count + i];
        if (largest != nullptr) most = larger(most, part_largest[part * count + i]);
      }
      sums[i] = sum;
      if (largest != nullptr) largest[i] = most;
    });
  }
};

}  // namespace kvreplay::cuda
