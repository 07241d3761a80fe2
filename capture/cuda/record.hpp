// Rows of attention as a trace stores them, from queries, keys and log-sum-exp: no row is held, and
// none is computed twice. Sums over rows and columns come along; all orders are fixed, so that a
// capture gives the same bytes on every run.
#pragma once

#include "capture/cuda/attention.hpp"
#include "capture/cuda/codes.hpp"
#include "traces/trace.hpp"

namespace kvreplay::cuda {

/// Sums over what is stored, as a reader decodes it; heads as recorded. Each pointer may be null.
struct RecordedSums {
  float* columns = nullptr;  ///< [row tile][head][column_stride], for SumColumns
  std::uint64_t column_stride = 0;
  float* rows = nullptr;     ///< [key part][head][row], for SumRows
  float* largest = nullptr;  ///< likewise the largest values
};

/// Which query heads are recorded, ascending, and how many of them each KV head has that has any.
struct RecordedHeads {
  const std::uint32_t* heads = nullptr;   ///< null: all
  const std::uint32_t* begins = nullptr;  ///< [kv_heads + 1]; the i-th KV head's are [i]..[i+1]-1
  std::uint32_t count = 0;
  std::uint32_t kv_heads = 0;

  static RecordedHeads all(const AttentionShape& shape) {
    return {nullptr, nullptr, shape.heads, shape.kv_heads};
  }
  KVREPLAY_HOST_DEVICE std::uint32_t begin(std::uint32_t i, std::uint32_t group_size) const {
    return heads == nullptr ? i * group_size : begins[i];
  }
  KVREPLAY_HOST_DEVICE std::uint32_t head(std::uint32_t at) const {
    return heads == nullptr ? at : heads[at];
  }
};

/// A block has kTileRows recorded rows of the recorded query heads of a KV head, whose keys it
/// reads once, and the keys of one part; fewer rows a tile are for decoding.
template <std::uint32_t kTileRows, class Code>
struct RecordRows {
  using Tile = cuda::Tile<kTileRows>;
  using Stored = typename Code::Stored;
  static constexpr std::uint32_t kThreads = Tile::kThreads;
  static_assert(RowLayout::kBlock % kTileRows == 0 && RowLayout::kBlock == Tile::kKeys);

  AttentionShape shape;
  AttentionInputs in;
  std::uint32_t every = 1;  ///< recorded are rows in.first, in.first + every, ...
  RecordedHeads recorded;
  LogSumExp lse;  ///< of all rows of all heads; `total` is not read
  /// [recorded head][head_stride], a head's recorded rows one after the other, each padded as
  /// RowLayout says; null: only sums.
  Stored* rows = nullptr;
  std::uint64_t head_stride = 0;
  RecordedSums sums;
  std::uint32_t part_tiles = 32;  ///< key tiles of a part

  KVREPLAY_HOST_DEVICE std::uint32_t count() const { return divide_up(in.rows(), every); }
  KVREPLAY_HOST_DEVICE std::uint32_t row_tiles() const { return divide_up(count(), Tile::kRows); }
  std::uint32_t parts() const { return divide_up(key_tiles(in.last - 1), part_tiles); }
  Grid grid() const { return {row_tiles(), recorded.kv_heads, parts()}; }
  std::size_t shared_bytes() const {
    return shared_size<float>(Tile::kKeys * Tile::whole_stride(shape.head_size)) +
           shared_size<float>(kSliceFloats) + 2 * shared_size<float>(Tile::kSide * Tile::kRows) +
           shared_size<float>(Tile::kSide * Tile::kKeys) +
           2 * shared_size<float>(shape.group_size() * Tile::kRows);
  }

  template <class Block>
  KVREPLAY_DEVICE void operator()(Block& block) const {
    // The longest rows first; begun last, they would keep the device waiting.
    const std::uint32_t tile = row_tiles() - 1 - block.index().x;
    const Rows of_tile{tile * Tile::kRows, smaller(Tile::kRows, count() - tile * Tile::kRows)};
    const std::uint32_t begin = position(of_tile.first);
    const std::uint32_t end = position(of_tile.first + of_tile.count - 1) + 1;
    const std::uint32_t size = shape.head_size;
    const std::uint32_t key_stride = Tile::whole_stride(size);
    const std::uint32_t first_head = recorded.begin(block.index().y, shape.group_size());
    const std::uint32_t group =
        recorded.begin(block.index().y + 1, shape.group_size()) - first_head;
    const float* of_keys = in.keys + recorded.head(first_head) / shape.group_size() * in.kv_stride;

    float* keys = block.template shared<float>(Tile::kKeys * key_stride);
    // Queries, then codes, in the same place: so heads of 128 values fit into 64 KiB.
    float* slice = block.template shared<float>(kSliceFloats);
    auto* stage = reinterpret_cast<Stored*>(slice);
    const Parts parts{block.template shared<float>(Tile::kSide * Tile::kRows),
                      block.template shared<float>(Tile::kSide * Tile::kRows),
                      block.template shared<float>(Tile::kSide * Tile::kKeys)};
    float* row_sums = block.template shared<float>(shape.group_size() * Tile::kRows);
    float* row_largest = block.template shared<float>(shape.group_size() * Tile::kRows);
    auto scores = block.template local<typename Tile::Scores>();

    block.phase([&](std::uint32_t thread) {
      for (std::uint32_t i = thread; i < group * Tile::kRows; i += kThreads)
        row_sums[i] = row_largest[i] = 0;
    });
    const std::uint32_t begin_tile = block.index().z * part_tiles;
    const std::uint32_t end_tile = smaller(begin_tile + part_tiles, key_tiles(end - 1));
    for (std::uint32_t t = begin_tile; t < end_tile; ++t) {
      const std::uint32_t key = t * Tile::kKeys;
      const bool seen = key + Tile::kKeys > shape.first_seen(begin);
      if (seen)
        block.phase([&](std::uint32_t thread) {
          for (std::uint32_t v = 0; v < size; v += Tile::kSlice)
            Tile::load(thread, keys + v, key_stride, of_keys + std::uint64_t{key} * size, size,
                       Tile::kKeys, end - key, v, size);
        });
      for (std::uint32_t g = 0; g < group; ++g) {
        const std::uint32_t head = recorded.head(first_head + g);
        const float* queries =
            in.queries + (begin - in.first) * in.query_stride + std::uint64_t{head} * size;
        for (std::uint32_t v = 0; seen && v < size; v += Tile::kSlice) {
          block.phase([&](std::uint32_t thread) {
            if (v == 0) Tile::clear(scores[thread]);
            Tile::load(thread, slice, Tile::kSliceStride, queries, every * in.query_stride,
                       Tile::kRows, of_tile.count, v, size);
          });
          block.phase([&](std::uint32_t thread) {
            Tile::multiply(thread, scores[thread], slice, Tile::kSliceStride, keys + v, key_stride);
          });
        }
        block.phase([&](std::uint32_t thread) {
          encode(thread, scores[thread], of_tile, key, head, stage, parts);
        });
        block.phase([&](std::uint32_t thread) {
          if (rows != nullptr) store(thread, stage, of_tile, key, first_head + g);
          if (thread < Tile::kRows) {
            float& sum = row_sums[g * Tile::kRows + thread];
            float& largest = row_largest[g * Tile::kRows + thread];
            float of_part = 0;
            for (std::uint32_t x = 0; x < Tile::kSide; ++x) {
              of_part += parts.row_sums[x * Tile::kRows + thread];
              largest = larger(largest, parts.row_largest[x * Tile::kRows + thread]);
            }
            sum += of_part;
          }
          if (thread < Tile::kKeys && sums.columns != nullptr) {
            float sum = 0;
            for (std::uint32_t y = 0; y < Tile::kSide; ++y)
              sum += parts.column_sums[y * Tile::kKeys + thread];
            sums.columns[(std::uint64_t{tile} * recorded.count + first_head + g) *
                             sums.column_stride +
                         key + thread] = sum;
          }
        });
      }
    }
    block.phase([&](std::uint32_t thread) {
      for (std::uint32_t i = thread; i < group * of_tile.count; i += kThreads) {
        const std::uint32_t g = i / of_tile.count;
        const std::uint32_t y = i % of_tile.count;
        const std::uint64_t head = block.index().z * std::uint64_t{recorded.count} + first_head + g;
        const std::uint64_t place = head * count() + of_tile.first + y;
        if (sums.rows != nullptr) sums.rows[place] = row_sums[g * Tile::kRows + y];
        if (sums.largest != nullptr) sums.largest[place] = row_largest[g * Tile::kRows + y];
      }
    });
  }

 private:
  using StoredLine = Line<Stored>;
  /// One line more than a tile's: rows begin in different banks.
  static constexpr std::uint32_t kStageStride = Tile::kKeys + StoredLine::kValues;
  static constexpr std::uint32_t kSliceFloats =
      Tile::kRows * larger(Tile::kSliceStride, static_cast<std::uint32_t>(
                                                   kStageStride * sizeof(Stored) / sizeof(float)));

  /// Of each thread, before they are added up: [x][row], [x][row] and [y][key].
  struct Parts {
    float* row_sums;
    float* row_largest;
    float* column_sums;
  };

  /// Some of the recorded rows.
  struct Rows {
    std::uint32_t first;
    std::uint32_t count;
  };

  KVREPLAY_HOST_DEVICE static std::uint32_t key_tiles(std::uint32_t row) {
    return row / Tile::kKeys + 1;
  }
  /// Of a recorded row.
  KVREPLAY_HOST_DEVICE std::uint32_t position(std::uint32_t row) const {
    return in.first + row * every;
  }

  KVREPLAY_DEVICE void encode(std::uint32_t thread, const typename Tile::Scores& scores,
                              const Rows& of_tile, std::uint32_t key, std::uint32_t head,
                              Stored* stage, const Parts& parts) const {
    const std::uint32_t x = thread % Tile::kSide;
    float columns[Tile::kKeysEach] = {};
    KVREPLAY_UNROLL
    for (std::uint32_t r = 0; r < Tile::kRowsEach; ++r) {
      const std::uint32_t y = thread / Tile::kSide + Tile::kSide * r;
      const bool within = y < of_tile.count;
      const std::uint32_t row = position(of_tile.first + y);
      const std::uint64_t place = head * lse.stride + (row - in.first);
      const float maximum = within ? lse.maximum[place] : 0;
      const float log_sum = within ? lse.log_sum[place] : 0;
      float sum = 0;
      float largest = 0;
      KVREPLAY_UNROLL
      for (std::uint32_t c = 0; c < Tile::kKeysEach; ++c) {
        const std::uint32_t k = x + Tile::kSide * c;
        Stored code = Code::kZero;
        if (within && shape.sees(row, key + k))
          code = Code::of(maximum - shape.score(scores.of[r][c]) + log_sum);
        stage[y * kStageStride + k] = code;
        const float value = Code::value(code);
        sum += value;
        largest = larger(largest, value);
        columns[c] += value;
      }
      parts.row_sums[x * Tile::kRows + y] = sum;
      parts.row_largest[x * Tile::kRows + y] = largest;
    }
    KVREPLAY_UNROLL
    for (std::uint32_t c = 0; c < Tile::kKeysEach; ++c)
      parts.column_sums[thread / Tile::kSide * Tile::kKeys + x + Tile::kSide * c] = columns[c];
  }

  /// 64 values of a row by threads that follow each other: whole lines of memory.
  KVREPLAY_DEVICE void store(std::uint32_t thread, const Stored* stage, const Rows& of_tile,
                             std::uint32_t key, std::uint32_t at) const {
    constexpr std::uint32_t kLines = Tile::kKeys / StoredLine::kValues;
    for (std::uint32_t i = thread; i < of_tile.count * kLines; i += kThreads) {
      const std::uint32_t y = i / kLines;
      const std::uint32_t k = i % kLines * StoredLine::kValues;
      const std::uint32_t row = position(of_tile.first + y);
      if (key > row) continue;  // longer rows of the tile go on
      Stored* to = rows + at * head_stride + offset(row) + key + k;
      *reinterpret_cast<StoredLine*>(to) = line_at(stage, y * kStageStride + k);
    }
  }

  KVREPLAY_DEVICE std::uint64_t offset(std::uint32_t row) const {
    if (every == 1) return RowLayout::offset(row) - RowLayout::offset(in.first);
    return RowSampling{in.first, every}.offset(row);
  }
};

}  // namespace kvreplay::cuda
