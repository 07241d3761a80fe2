#include "capture/cuda/memory_plan.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "capture/cuda/block.hpp"
#include "traces/size_text.hpp"

namespace kvreplay::cuda {
namespace {

constexpr std::uint32_t kChunk = 512;
constexpr std::uint32_t kSmallestChunk = 16;
constexpr std::uint32_t kBuffers = 4;
constexpr std::uint64_t kBufferBytes = std::uint64_t{64} << 20;

std::uint64_t activation_bytes(const ModelConfig& config, std::uint64_t chunk) {
  const std::uint64_t d = config.head_size;
  const std::uint64_t heads = config.heads;
  // Its id, hidden and normed; Q, K and V; what attention gives; what the feed-forward part has
  // between its products; log-sum-exp of all layers.
  const std::uint64_t of_token = 1 + 2 * std::uint64_t{config.embedding} + config.qkv_size() +
                                 heads * d + config.inner_size() + heads * (2 + config.layers);
  const std::uint64_t logits = std::min<std::uint64_t>(chunk, kLogitsTokens) * config.vocabulary;
  const std::uint64_t partial = heads * kMostSplits * kFewRows * (d + 2);
  return sizeof(float) * (chunk * of_token + logits + partial);
}

/// Of buffers, of sums in parts and of the lists of heads.
std::uint64_t row_bytes(const TraceInfo& plan, std::uint32_t capacity, const MemoryPlan& memory) {
  const std::uint64_t heads = plan.heads.size();
  return memory.buffers * memory.buffer_bytes +
         sizeof(float) * (row_parts(capacity) * heads * memory.chunk + 3 * heads + 1);
}

/// Of the last row that is recorded.
std::uint64_t bytes_of_longest(const TraceInfo& plan, std::uint32_t capacity) {
  const std::uint32_t rows = plan.sampling.before(capacity);
  const std::uint32_t row =
      rows == 0 ? capacity - 1 : plan.sampling.first + (rows - 1) * plan.sampling.every;
  return BlockLayout(plan, {row, row + 1}).size;
}

}  // namespace

std::uint64_t row_parts(std::uint32_t keys) {
  return divide_up<std::uint64_t>(keys, RowLayout::kBlock * kPartTiles);
}

BlockLayout::BlockLayout(const TraceInfo& plan, RowRange rows) {
  const auto place = [this](std::uint64_t bytes) {
    const std::uint64_t at = size;
    size += divide_up<std::uint64_t>(bytes, sizeof(Line<float>)) * sizeof(Line<float>);
    return at;
  };
  const std::uint64_t heads = plan.heads.size();
  const std::uint64_t recorded = plan.sampling.count(rows) * sizeof(float);
  const std::uint64_t vector = plan.head_size;
  const bool factored = plan.encoding == Encoding::factors;
  main_of_head =
      factored ? recorded * vector : plan.sampling.values(rows) * bytes_per_value(plan.encoding);
  main = place(heads * main_of_head);
  lse = place(heads * recorded);
  sums = place(heads * recorded);
  const std::uint64_t of_kv_heads =
      recorded_kv_heads(plan).size() * rows.size() * vector * sizeof(float);
  keys = place(factored || plan.norms ? of_kv_heads : 0);
  values = place(plan.values || plan.norms ? of_kv_heads : 0);
}

RowRange rows_that_fit(const TraceInfo& plan, RowRange rows, std::uint64_t bytes) {
  const auto fits = [&](std::uint32_t last) {
    return BlockLayout(plan, {rows.first, last}).size <= bytes;
  };
  if (fits(rows.last)) return rows;
  std::uint32_t last = rows.first + 1;
  for (std::uint32_t too_many = rows.last; too_many - last > 1;) {
    const std::uint32_t middle = last + (too_many - last) / 2;
    (fits(middle) ? last : too_many) = middle;
  }
  const auto whole = static_cast<std::uint32_t>(last / RowLayout::kBlock * RowLayout::kBlock);
  return {rows.first, whole > rows.first ? whole : last};
}

MemoryPlan plan_memory(const ModelConfig& config, std::uint64_t weights, std::uint32_t capacity,
                       const TraceInfo* recorded, std::uint64_t limit) {
  MemoryPlan plan;
  plan.weights = weights;
  plan.cache = sizeof(float) * capacity *
               (std::uint64_t{config.layers} * config.kv_heads * 2 * config.head_size +
                config.rope.dimensions + (config.window_rope ? config.window_rope->dimensions : 0));
  plan.chunk = std::min(kChunk, capacity);
  std::uint64_t one_row = 0;
  if (recorded != nullptr) {
    one_row = bytes_of_longest(*recorded, capacity);
    const std::uint64_t of_chunk = BlockLayout(*recorded, {capacity - plan.chunk, capacity}).size;
    plan.buffers = kBuffers;
    plan.buffer_bytes = std::max(std::min(kBufferBytes, of_chunk), one_row);
  }
  while (true) {
    plan.activations = activation_bytes(config, plan.chunk);
    if (recorded != nullptr) plan.rows = row_bytes(*recorded, capacity, plan);
    if (plan.on_device() <= limit) break;
    if (plan.buffer_bytes > one_row)
      plan.buffer_bytes = std::max(plan.buffer_bytes / 2, one_row);
    else if (plan.chunk > kSmallestChunk)
      plan.chunk = std::max(plan.chunk / 2, kSmallestChunk);
    else
      throw std::invalid_argument(
          "a run of " + std::to_string(capacity) + " tokens needs at least " +
          size_text(plan.on_device(), SizeRounding::up) + " of device memory (weights " +
          size_text(plan.weights, SizeRounding::up) + ", keys and values " +
          size_text(plan.cache, SizeRounding::up) + ", activations " +
          size_text(plan.activations, SizeRounding::up) + ", rows on their way " +
          size_text(plan.rows, SizeRounding::up) + ") but has " +
          size_text(limit, SizeRounding::down) +
          "; allow it more, capture fewer tokens, or use the CPU");
  }
  plan.on_host =
      plan.buffers * plan.buffer_bytes + sizeof(float) * config.layers * config.heads * plan.chunk;
  return plan;
}

}  // namespace kvreplay::cuda
