// How a device's memory is shared out: what the run needs anyway, then as many tokens at a time and
// as large buffers for rows as the rest allows.
#pragma once

#include <cstdint>

#include "capture/model_config.hpp"
#include "traces/trace.hpp"

namespace kvreplay::cuda {

/// Decoding shares out the keys of a row over at most so many blocks of threads.
constexpr std::uint32_t kMostSplits = 32;
/// Rows that attend with the small tile, their keys shared out.
constexpr std::uint32_t kFewRows = 16;
/// Tokens whose logits exist at once.
constexpr std::uint32_t kLogitsTokens = 64;
/// Key tiles that a block of threads records.
constexpr std::uint32_t kPartTiles = 32;

/// Where the parts of a block of rows lie in a buffer of the ring, in bytes, recorded head by
/// recorded head (keys and values, of all positions: KV head by KV head), all recorded rows of one
/// behind the other.
struct BlockLayout {
  BlockLayout(const TraceInfo& plan, RowRange rows);

  std::uint64_t main = 0;          ///< encoded rows, or queries
  std::uint64_t main_of_head = 0;  ///< bytes of one head's
  std::uint64_t lse = 0;
  std::uint64_t sums = 0;  ///< of each row, as decoded
  std::uint64_t keys = 0;
  std::uint64_t values = 0;
  std::uint64_t size = 0;
};

/// Parts that rows over `keys` keys are recorded in, one block of threads each.
std::uint64_t row_parts(std::uint32_t keys);

/// The rows from `rows.first` on, up to `rows.last`, that a buffer of so many bytes takes: whole
/// blocks of RowLayout where it takes one, at least one row.
RowRange rows_that_fit(const TraceInfo& plan, RowRange rows, std::uint64_t bytes);

/// Bytes.
struct MemoryPlan {
  std::uint64_t weights = 0;
  std::uint64_t cache = 0;        ///< keys, values and the turns of all positions
  std::uint64_t activations = 0;  ///< of one chunk
  std::uint64_t rows = 0;         ///< the ring's buffers, and sums of rows in parts
  std::uint32_t chunk = 0;        ///< tokens
  std::uint32_t buffers = 0;      ///< of the ring; as many lie in the host's memory
  std::uint64_t buffer_bytes = 0;
  std::uint64_t on_host = 0;  ///< of the host's memory, to which the device copies

  std::uint64_t on_device() const { return weights + cache + activations + rows; }
};

/// For a run of `capacity` tokens in `limit` bytes; `recorded` null: without recording. Throws
/// std::invalid_argument where even one row at a time does not fit.
MemoryPlan plan_memory(const ModelConfig& config, std::uint64_t weights, std::uint32_t capacity,
                       const TraceInfo* recorded, std::uint64_t limit);

}  // namespace kvreplay::cuda
