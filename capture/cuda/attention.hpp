// Causal attention by tiles with an online softmax, in fp32; the rows' log-sum-exp is what the
// recording kernel needs to give rows without holding them.
#pragma once

#include <limits>

#include "capture/cuda/scores.hpp"

namespace kvreplay::cuda {

/// Of each row, [head][stride]: exp(score - maximum) / exp(log_sum) is a probability. In two parts,
/// because one float for their sum, at scores of 1e5, is only good for 1 % of a probability.
struct LogSumExp {
  float* maximum = nullptr;
  float* log_sum = nullptr;
  float* total = nullptr;  ///< maximum + log_sum, as traces store it
  std::uint64_t stride = 0;

  /// The same from a later row on.
  LogSumExp from(std::uint64_t row) const {
    return {maximum + row, log_sum + row, total + row, stride};
  }
};

/// What a row has of some of its keys: output is sum times what it would be if they were all.
struct PartialAttention {
  float* maximum = nullptr;  ///< [split][head][row]; -infinity where the row sees none of the keys
  float* sum = nullptr;      ///< as maximum; of exp(score - maximum)
  float* output = nullptr;   ///< [split][head][row][head_size]
};

/// kHead is the largest head size, a multiple of 64. Fewer rows a tile are for decoding.
template <std::uint32_t kTileRows, std::uint32_t kHead>
struct Attend {
  using Tile = cuda::Tile<kTileRows>;
  static constexpr std::uint32_t kThreads = Tile::kThreads;
  static constexpr std::uint32_t kLines = kHead / 64;  // of output, each thread's, a row
  static constexpr std::uint32_t kValueKeys = 16;      // V passes through in slices of keys
  static constexpr std::uint32_t kWeightStride = Tile::kKeys + 4;
  static_assert(kHead % 64 == 0);

  AttentionShape shape;
  AttentionInputs in;
  const float* values = nullptr;  ///< as in.keys
  float* output = nullptr;        ///< [row][output_stride], one head behind the other
  std::uint64_t output_stride = 0;
  LogSumExp lse;
  std::uint32_t splits =
      1;  ///< above 1: the keys of a row are shared out and `partial` is written,
  PartialAttention partial;  ///< for MergeAttention, instead of output and lse

  std::uint32_t row_tiles() const { return divide_up(in.rows(), Tile::kRows); }
  Grid grid() const { return {row_tiles(), shape.heads, splits}; }
  std::size_t shared_bytes() const {
    return shared_size<float>(Tile::kRows * Tile::whole_stride(shape.head_size)) +
           shared_size<float>(kSliceFloats) + shared_size<float>(Tile::kRows * kWeightStride) +
           shared_size<float>(Tile::kSide * Tile::kRows) + 3 * shared_size<float>(Tile::kRows);
  }

  template <class Block>
  KVREPLAY_DEVICE void operator()(Block& block) const {
    // The last rows see the most keys; begun first, they do not keep the device waiting.
    const std::uint32_t tile = divide_up(in.rows(), Tile::kRows) - 1 - block.index().x;
    const std::uint32_t head = block.index().y;
    const std::uint32_t row = in.first + tile * Tile::kRows;
    const std::uint32_t end = smaller(row + Tile::kRows, in.last);
    const std::uint32_t size = shape.head_size;
    const std::uint32_t query_stride = Tile::whole_stride(size);
    const std::uint64_t kv_offset = head / shape.group_size() * in.kv_stride;

    float* queries = block.template shared<float>(Tile::kRows * query_stride);
    float* slice = block.template shared<float>(kSliceFloats);
    float* weights = block.template shared<float>(Tile::kRows * kWeightStride);
    float* parts = block.template shared<float>(Tile::kSide * Tile::kRows);
    float* maximum = block.template shared<float>(Tile::kRows);
    float* sum = block.template shared<float>(Tile::kRows);
    float* rescale = block.template shared<float>(Tile::kRows);
    auto scores = block.template local<typename Tile::Scores>();
    auto mixed = block.template local<Mixed>();

    block.phase([&](std::uint32_t thread) {
      const float* from =
          in.queries + (row - in.first) * in.query_stride + std::uint64_t{head} * size;
      for (std::uint32_t v = 0; v < size; v += Tile::kSlice)
        Tile::load(thread, queries + v, query_stride, from, in.query_stride, Tile::kRows, end - row,
                   v, size);
      if (thread < Tile::kRows) {
        maximum[thread] = -std::numeric_limits<float>::infinity();
        sum[thread] = 0;
      }
      clear(mixed[thread]);
    });

    const std::uint32_t first_tile = shape.first_seen(row) / Tile::kKeys;
    const std::uint32_t key_tiles = divide_up(end, Tile::kKeys) - first_tile;
    const std::uint32_t share = divide_up(key_tiles, splits);
    const std::uint32_t begin_tile = first_tile + block.index().z * share;
    const std::uint32_t end_tile = smaller(begin_tile + share, first_tile + key_tiles);
    for (std::uint32_t t = begin_tile; t < end_tile; ++t) {
      const std::uint32_t key = t * Tile::kKeys;
      const float* of_keys = in.keys + kv_offset + std::uint64_t{key} * size;
      const float* of_values = values + kv_offset + std::uint64_t{key} * size;
      for (std::uint32_t v = 0; v < size; v += Tile::kSlice) {
        block.phase([&](std::uint32_t thread) {
          if (v == 0) Tile::clear(scores[thread]);
          Tile::load(thread, slice, Tile::kSliceStride, of_keys, size, Tile::kKeys, end - key, v,
                     size);
        });
        block.phase([&](std::uint32_t thread) {
          Tile::multiply(thread, scores[thread], queries + v, query_stride, slice,
                         Tile::kSliceStride);
        });
      }
      block.phase([&](std::uint32_t thread) {
        largest_of_each_row(thread, scores[thread], row, key, parts);
      });
      block.phase([&](std::uint32_t thread) {
        if (thread >= Tile::kRows) return;
        const float before = maximum[thread];
        float now = before;
        for (std::uint32_t x = 0; x < Tile::kSide; ++x)
          now = larger(now, parts[x * Tile::kRows + thread]);
        maximum[thread] = now;
        // Where nothing has been seen yet, both are -infinity.
        rescale[thread] = now == before ? 1.0F : std::exp(before - now);
      });
      block.phase([&](std::uint32_t thread) {
        weigh(thread, scores[thread], row, key, maximum, weights, parts);
        multiply(thread, mixed[thread], rescale);
      });
      for (std::uint32_t k = 0; k < Tile::kKeys; k += kValueKeys) {
        block.phase([&](std::uint32_t thread) {
          load_values(thread, slice, of_values + std::uint64_t{k} * size, key + k, end);
          if (k > 0 || thread >= Tile::kRows) return;
          float of_tile = 0;
          for (std::uint32_t x = 0; x < Tile::kSide; ++x)
            of_tile += parts[x * Tile::kRows + thread];
          sum[thread] = sum[thread] * rescale[thread] + of_tile;
        });
        block.phase([&](std::uint32_t thread) { mix(thread, mixed[thread], weights + k, slice); });
      }
    }

    block.phase([&](std::uint32_t thread) {
      if (splits > 1)
        write_partial(thread, mixed[thread], maximum, sum, row, end, head, block.index().z);
      else
        write(thread, mixed[thread], maximum, sum, row, end, head);
    });
  }

 private:
  static constexpr std::uint32_t kSliceFloats =
      larger(Tile::kKeys * Tile::kSliceStride, kValueKeys* kHead);

  /// A thread's outputs: of its rows, values 64 l + 4 x + 0..3.
  struct Mixed {
    Line<float> of[Tile::kRowsEach][kLines];
  };

  KVREPLAY_DEVICE static void clear(Mixed& mixed) {
    KVREPLAY_UNROLL
    for (std::uint32_t r = 0; r < Tile::kRowsEach; ++r) {
      KVREPLAY_UNROLL
      for (std::uint32_t l = 0; l < kLines; ++l) mixed.of[r][l] = {};
    }
  }

  KVREPLAY_DEVICE static void multiply(std::uint32_t thread, Mixed& mixed, const float* by) {
    KVREPLAY_UNROLL
    for (std::uint32_t r = 0; r < Tile::kRowsEach; ++r) {
      const float factor = by[thread / Tile::kSide + Tile::kSide * r];
      KVREPLAY_UNROLL
      for (std::uint32_t l = 0; l < kLines; ++l) {
        KVREPLAY_UNROLL
        for (std::uint32_t i = 0; i < 4; ++i) mixed.of[r][l].value[i] *= factor;
      }
    }
  }

  /// Turns products into scores; [x][row] is the largest of what thread x of the row sees.
  KVREPLAY_DEVICE void largest_of_each_row(std::uint32_t thread, typename Tile::Scores& scores,
                                           std::uint32_t row, std::uint32_t key,
                                           float* parts) const {
    const std::uint32_t x = thread % Tile::kSide;
    KVREPLAY_UNROLL
    for (std::uint32_t r = 0; r < Tile::kRowsEach; ++r) {
      const std::uint32_t y = thread / Tile::kSide + Tile::kSide * r;
      float largest = -std::numeric_limits<float>::infinity();
      KVREPLAY_UNROLL
      for (std::uint32_t c = 0; c < Tile::kKeysEach; ++c) {
        scores.of[r][c] = shape.score(scores.of[r][c]);
        if (shape.sees(row + y, key + x + Tile::kSide * c))
          largest = larger(largest, scores.of[r][c]);
      }
      parts[x * Tile::kRows + y] = largest;
    }
  }

  /// Turns scores into weights exp(score - maximum); [x][row] is the sum of those of thread x.
  KVREPLAY_DEVICE void weigh(std::uint32_t thread, const typename Tile::Scores& scores,
                             std::uint32_t row, std::uint32_t key, const float* maximum,
                             float* weights, float* parts) const {
    const std::uint32_t x = thread % Tile::kSide;
    KVREPLAY_UNROLL
    for (std::uint32_t r = 0; r < Tile::kRowsEach; ++r) {
      const std::uint32_t y = thread / Tile::kSide + Tile::kSide * r;
      float of_thread = 0;
      KVREPLAY_UNROLL
      for (std::uint32_t c = 0; c < Tile::kKeysEach; ++c) {
        const std::uint32_t k = x + Tile::kSide * c;
        const float weight =
            shape.sees(row + y, key + k) ? std::exp(scores.of[r][c] - maximum[y]) : 0.0F;
        weights[y * kWeightStride + k] = weight;
        of_thread += weight;
      }
      parts[x * Tile::kRows + y] = of_thread;
    }
  }

  KVREPLAY_DEVICE void load_values(std::uint32_t thread, float* to, const float* from,
                                   std::uint32_t key, std::uint32_t end) const {
    for (std::uint32_t i = thread; i < kValueKeys * kHead; i += kThreads) {
      const std::uint32_t k = i / kHead;
      const std::uint32_t value = i % kHead;
      to[i] = key + k < end && value < shape.head_size
                  ? from[std::uint64_t{k} * shape.head_size + value]
                  : 0.0F;
    }
  }

  KVREPLAY_DEVICE static void mix(std::uint32_t thread, Mixed& mixed, const float* weights,
                                  const float* values) {
    const std::uint32_t first_row = thread / Tile::kSide * kWeightStride;
    const std::uint32_t first_value = thread % Tile::kSide * 4;
    for (std::uint32_t k = 0; k < kValueKeys; k += 4) {
      Line<float> weight[Tile::kRowsEach];
      KVREPLAY_UNROLL
      for (std::uint32_t r = 0; r < Tile::kRowsEach; ++r)
        weight[r] = line_at(weights, first_row + Tile::kSide * r * kWeightStride + k);
      KVREPLAY_UNROLL
      for (std::uint32_t j = 0; j < 4; ++j) {
        KVREPLAY_UNROLL
        for (std::uint32_t l = 0; l < kLines; ++l) {
          const Line<float> value = line_at(values, first_value + (k + j) * kHead + 64 * l);
          KVREPLAY_UNROLL
          for (std::uint32_t r = 0; r < Tile::kRowsEach; ++r) {
            KVREPLAY_UNROLL
            for (std::uint32_t i = 0; i < 4; ++i)
              mixed.of[r][l].value[i] =
                  std::fma(weight[r].value[j], value.value[i], mixed.of[r][l].value[i]);
          }
        }
      }
    }
  }

  /// A thread's outputs times `factor(row of the tile)` to where `place(row)` is a head's output.
  template <class Factor, class Place>
  KVREPLAY_DEVICE void store(std::uint32_t thread, const Mixed& mixed, std::uint32_t rows,
                             const Factor& factor, const Place& place) const {
    KVREPLAY_UNROLL
    for (std::uint32_t r = 0; r < Tile::kRowsEach; ++r) {
      const std::uint32_t y = thread / Tile::kSide + Tile::kSide * r;
      if (y >= rows) continue;
      float* to = place(y);
      const float by = factor(y);
      KVREPLAY_UNROLL
      for (std::uint32_t l = 0; l < kLines; ++l) {
        KVREPLAY_UNROLL
        for (std::uint32_t i = 0; i < 4; ++i) {
          const std::uint32_t value = 64 * l + thread % Tile::kSide * 4 + i;
          if (value < shape.head_size) to[value] = mixed.of[r][l].value[i] * by;
        }
      }
    }
  }

  KVREPLAY_DEVICE void write(std::uint32_t thread, const Mixed& mixed, const float* maximum,
                             const float* sum, std::uint32_t row, std::uint32_t end,
                             std::uint32_t head) const {
    store(
        thread, mixed, end - row, [&](std::uint32_t y) { return 1 / sum[y]; },
        [&](std::uint32_t y) {
          return output + (row + y - in.first) * output_stride +
                 std::uint64_t{head} * shape.head_size;
        });
    if (thread >= end - row) return;
    const std::uint64_t place = head * lse.stride + (row + thread - in.first);
    const float log_sum = std::log(sum[thread]);
    lse.maximum[place] = maximum[thread];
    lse.log_sum[place] = log_sum;
    lse.total[place] = maximum[thread] + log_sum;
  }

  KVREPLAY_DEVICE void write_partial(std::uint32_t thread, const Mixed& mixed, const float* maximum,
                                     const float* sum, std::uint32_t row, std::uint32_t end,
                                     std::uint32_t head, std::uint32_t split) const {
    const std::uint64_t place =
        (std::uint64_t{split} * shape.heads + head) * in.rows() + (row - in.first);
    store(
        thread, mixed, end - row, [](std::uint32_t) { return 1.0F; },
        [&](std::uint32_t y) { return partial.output + (place + y) * shape.head_size; });
    if (thread >= end - row) return;
    partial.maximum[place + thread] = maximum[thread];
    partial.sum[place + thread] = sum[thread];
  }
};

/// Joins the parts of each row by their log-sum-exp, in the order of the keys. One block a row and
/// head.
struct MergeAttention {
  static constexpr std::uint32_t kThreads = 64;

  std::uint32_t rows = 0;
  std::uint32_t heads = 1;
  std::uint32_t head_size = 0;
  std::uint32_t splits = 1;
  PartialAttention partial;
  float* output = nullptr;  ///< as Attend's
  std::uint64_t output_stride = 0;
  LogSumExp lse;

  Grid grid() const { return {rows, heads, 1}; }
  std::size_t shared_bytes() const { return 0; }

  template <class Block>
  KVREPLAY_DEVICE void operator()(Block& block) const {
    const std::uint64_t parts = std::uint64_t{heads} * rows;
    const std::uint64_t place = std::uint64_t{block.index().y} * rows + block.index().x;
    block.phase([&](std::uint32_t thread) {
      float maximum = -std::numeric_limits<float>::infinity();
      for (std::uint32_t s = 0; s < splits; ++s)
        maximum = larger(maximum, partial.maximum[s * parts + place]);
      float sum = 0;
      for (std::uint32_t s = 0; s < splits; ++s)
        sum += partial.sum[s * parts + place] * share(s * parts + place, maximum);
      float* to =
          output + block.index().x * output_stride + std::uint64_t{block.index().y} * head_size;
      for (std::uint32_t value = thread; value < head_size; value += kThreads) {
        float mixed = 0;
        for (std::uint32_t s = 0; s < splits; ++s)
          mixed += partial.output[(s * parts + place) * head_size + value] *
                   share(s * parts + place, maximum);
        to[value] = mixed / sum;
      }
      if (thread != 0) return;
      const float log_sum = std::log(sum);
      const std::uint64_t of_row = block.index().y * lse.stride + block.index().x;
      lse.maximum[of_row] = maximum;
      lse.log_sum[of_row] = log_sum;
      lse.total[of_row] = maximum + log_sum;
    });
  }

 private:
  /// Equal maxima first: they may be infinite.
  KVREPLAY_DEVICE float share(std::uint64_t part, float maximum) const {
    return partial.maximum[part] == maximum ? 1.0F : std::exp(partial.maximum[part] - maximum);
  }
};

}  // namespace kvreplay::cuda
