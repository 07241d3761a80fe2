// Scores q.k of a tile of rows and keys, in registers; what attention and recording share. Both get
// the same bits: one thread sums the products of a score in the order of the head's values, and
// kernels are built without contraction to fused multiply-adds other than those written out.
#pragma once

#include <cmath>

#include "capture/cuda/block.hpp"

namespace kvreplay::cuda {

/// Attention of one layer as the kernels need it; LayerAttention, with the model's shape.
struct AttentionShape {
  std::uint32_t heads = 1;
  std::uint32_t kv_heads = 1;
  std::uint32_t head_size = 0;
  std::uint32_t window = 0;  ///< tokens a query sees, itself included; 0: all
  float scale = 1;
  float softcap = 0;  ///< 0: none

  KVREPLAY_HOST_DEVICE std::uint32_t group_size() const { return heads / kv_heads; }

  /// By index: no score, however negative, lets a later token in.
  KVREPLAY_HOST_DEVICE bool sees(std::uint32_t row, std::uint32_t key) const {
    return key <= row && (window == 0 || row - key < window);
  }
  KVREPLAY_HOST_DEVICE std::uint32_t first_seen(std::uint32_t row) const {
    return window == 0 || row < window ? 0 : row + 1 - window;
  }
  KVREPLAY_HOST_DEVICE float score(float product) const {
    return softcap > 0 ? softcap * std::tanh(product * (scale / softcap)) : product * scale;
  }
};

/// A tile for 256 threads as 16 x 16: thread (y, x) has rows y + 16 r and keys x + 16 c. Values of
/// a head pass through in slices; strides of 4 more than a multiple of 32 keep lines of
/// neighbouring vectors in different banks.
template <std::uint32_t kTileRows>
struct Tile {
  static constexpr std::uint32_t kThreads = 256;
  static constexpr std::uint32_t kSide = 16;
  static constexpr std::uint32_t kRows = kTileRows;
  static constexpr std::uint32_t kKeys = 64;
  static constexpr std::uint32_t kRowsEach = kRows / kSide;
  static constexpr std::uint32_t kKeysEach = kKeys / kSide;
  static constexpr std::uint32_t kSlice = 32;
  static constexpr std::uint32_t kSliceStride = kSlice + 4;
  static_assert(kRows % kSide == 0 && kKeys % kSide == 0);

  struct Scores {
    float of[kRowsEach][kKeysEach];
  };

  /// From vector to vector where all slices of a head lie side by side.
  KVREPLAY_HOST_DEVICE static constexpr std::uint32_t whole_stride(std::uint32_t head_size) {
    return divide_up(head_size, kSlice) * kSlice + 4;
  }

  /// One thread's part of bringing the slice from value `first` on of `count` vectors into shared
  /// storage; zeros stand for vectors from `available` on and for values past the head's size.
  KVREPLAY_DEVICE static void load(std::uint32_t thread, float* to, std::uint32_t to_stride,
                                   const float* from, std::uint64_t from_stride,
                                   std::uint32_t count, std::uint32_t available,
                                   std::uint32_t first, std::uint32_t head_size) {
    const std::uint32_t x = thread % kSlice;
    const std::uint32_t value = first + x;
    for (std::uint32_t i = thread / kSlice; i < count; i += kThreads / kSlice)
      to[i * to_stride + x] =
          i < available && value < head_size ? from[i * from_stride + value] : 0.0F;
  }

  KVREPLAY_DEVICE static void clear(Scores& scores) {
    KVREPLAY_UNROLL
    for (std::uint32_t r = 0; r < kRowsEach; ++r) {
      KVREPLAY_UNROLL
      for (std::uint32_t c = 0; c < kKeysEach; ++c) scores.of[r][c] = 0;
    }
  }

  /// Adds the products of one slice.
  KVREPLAY_DEVICE static void multiply(std::uint32_t thread, Scores& scores, const float* queries,
                                       std::uint32_t query_stride, const float* keys,
                                       std::uint32_t key_stride) {
    const std::uint32_t first_row = thread / kSide * query_stride;
    const std::uint32_t first_key = thread % kSide * key_stride;
    // Several steps at once take so many registers that ptxas spills some.
    KVREPLAY_NO_UNROLL
    for (std::uint32_t x = 0; x < kSlice; x += 4) {
      Line<float> of_row[kRowsEach];
      KVREPLAY_UNROLL
      for (std::uint32_t r = 0; r < kRowsEach; ++r)
        of_row[r] = line_at(queries, first_row + kSide * r * query_stride + x);
      KVREPLAY_UNROLL
      for (std::uint32_t c = 0; c < kKeysEach; ++c) {
        const auto of_key = line_at(keys, first_key + kSide * c * key_stride + x);
        KVREPLAY_UNROLL
        for (std::uint32_t r = 0; r < kRowsEach; ++r) {
          KVREPLAY_UNROLL
          for (std::uint32_t i = 0; i < 4; ++i)
            scores.of[r][c] = std::fma(of_row[r].value[i], of_key.value[i], scores.of[r][c]);
        }
      }
    }
  }
};

/// Rows `first`..`last` - 1, the last positions of the cache; one head's vectors lie together.
struct AttentionInputs {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  const float* queries = nullptr;  ///< [row - first][query_stride]
  std::uint64_t query_stride = 0;
  const float* keys = nullptr;  ///< [KV head][kv_stride], [position][head_size] within
  std::uint64_t kv_stride = 0;

  KVREPLAY_HOST_DEVICE std::uint32_t rows() const { return last - first; }
};

}  // namespace kvreplay::cuda
