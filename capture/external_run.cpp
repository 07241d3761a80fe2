#include "capture/external_run.hpp"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <stdexcept>

#include "traces/out_of_memory.hpp"

namespace kvreplay {
namespace {

/// What the KV heads of a layer hold.
std::uint64_t held_floats(const TraceInfo& info) {
  return std::uint64_t{info.kv_heads} * info.tokens * info.head_size;
}

FloatBuffer room_for(const TraceInfo& info, const char* purpose) {
  std::uint64_t floats = info.layers.size();
  const bool too_many = __builtin_mul_overflow(floats, info.kv_heads, &floats) ||
                        __builtin_mul_overflow(floats, info.tokens, &floats) ||
                        __builtin_mul_overflow(floats, info.head_size, &floats) ||
                        floats > std::numeric_limits<std::uint64_t>::max() / sizeof(float) / 2;
  if (too_many) throw OutOfMemory(std::string(purpose) + " are more than any memory holds");
  return {floats, purpose};
}

}  // namespace

ExternalRun::ExternalRun(const std::filesystem::path& path, const TraceInfo& planned,
                         bool overwrite)
    : planned_(planned),
      recorder_(path, planned, overwrite),
      keys_(room_for(planned, "the keys of a run")),
      values_(needs_values() ? room_for(planned, "the values of a run") : FloatBuffer()),
      positions_(planned.layers.size(), 0),
      probabilities_([tokens = planned.tokens] {
        return FloatBuffer(RowLayout::kBlock * RowLayout::padded_length(tokens - 1),
                           "a block of rows");
      }) {}

bool ExternalRun::records(std::uint32_t layer) const {
  return std::binary_search(planned_.layers.begin(), planned_.layers.end(), layer);
}

std::size_t ExternalRun::slot(std::uint32_t layer) const {
  const auto at = std::lower_bound(planned_.layers.begin(), planned_.layers.end(), layer);
  return static_cast<std::size_t>(at - planned_.layers.begin());
}

float* ExternalRun::held(const FloatBuffer& all, std::size_t layer_slot,
                         std::uint32_t kv_head) const {
  return all.data() + layer_slot * held_floats(planned_) +
         std::uint64_t{kv_head} * planned_.tokens * planned_.head_size;
}

void ExternalRun::keep(const FloatBuffer& all, std::size_t layer_slot, std::uint32_t tokens,
                       std::span<const float> vectors) const {
  const std::size_t size = planned_.head_size;
  for (std::uint32_t head = 0; head < planned_.kv_heads; ++head) {
    float* out = held(all, layer_slot, head) + positions_[layer_slot] * size;
    for (std::uint32_t token = 0; token < tokens; ++token, out += size) {
      const std::size_t from = (std::size_t{token} * planned_.kv_heads + head) * size;
      std::copy_n(vectors.subspan(from, size).begin(), size, out);
    }
  }
}

void ExternalRun::record(std::uint32_t layer, std::uint32_t tokens, std::span<const float> queries,
                         std::span<const float> keys, std::span<const float> values) {
  const std::size_t layer_slot = slot(layer);
  const std::uint32_t first = positions_[layer_slot];
  if (tokens > planned_.tokens - first) {
    throw std::invalid_argument("layer " + std::to_string(layer) + " was given " +
                                std::to_string(std::uint64_t{first} + tokens) +
                                " tokens, and the trace was begun for " +
                                std::to_string(planned_.tokens));
  }
  keep(keys_, layer_slot, tokens, keys);
  if (needs_values()) keep(values_, layer_slot, tokens, values);

  // Blocks end where RowLayout's do, so that all rows of a block have one padded length.
  std::vector<RowRange> blocks;
  for (std::uint32_t row = first; row < first + tokens; row = blocks.back().last) {
    const auto layout_end =
        static_cast<std::uint32_t>((row / RowLayout::kBlock + 1) * RowLayout::kBlock);
    blocks.push_back({row, std::min(layout_end, first + tokens)});
  }
  const std::size_t heads = planned_.heads.size();
  // In row order: a recorder that writes rows in order must not keep many back.
  std::atomic<std::size_t> next{0};
  const auto work = [&](int) {
    for (std::size_t task = next++; task < blocks.size() * heads; task = next++) {
      const RowRange rows = blocks[task / heads];
      const std::uint32_t head = planned_.heads[task % heads];
      attend(layer, head, rows,
             queries.data() + (std::size_t{rows.first - first} * planned_.model_heads + head) *
                                  planned_.head_size);
    }
  };
  // Isolated: a thread that waits here must not take up a task of the engine, which may call again.
  tbb::this_task_arena::isolate(
      [&] { tbb::parallel_for(0, tbb::this_task_arena::max_concurrency(), work); });
  positions_[layer_slot] = first + tokens;
  const std::uint32_t whole = *std::min_element(positions_.begin(), positions_.end());
  if (whole > whole_) recorder_.rows_whole(whole);
  whole_ = whole;
}

void ExternalRun::attend(std::uint32_t layer, std::uint32_t head, RowRange rows,
                         const float* queries) {
  const std::size_t layer_slot = slot(layer);
  const std::uint32_t kv_head = head / planned_.group_size();
  AttentionBlock block;
  block.rows = rows;
  block.factors.head_size = planned_.head_size;
  block.factors.attention = planned_.attention[layer_slot];
  block.factors.queries = queries;
  block.factors.query_stride = std::uint64_t{planned_.model_heads} * planned_.head_size;
  block.factors.keys = held(keys_, layer_slot, kv_head);
  if (needs_values()) block.values = held(values_, layer_slot, kv_head);
  std::array<float, RowLayout::kBlock> lse{};
  const auto probabilities = probabilities_.local().span().first(rows.values());
  if (!attention_rows(block.factors, rows, probabilities, lse)) {
    throw InputError("layer " + std::to_string(layer) + ", head " + std::to_string(head) +
                     ": a row from row " + std::to_string(rows.first) +
                     " on is not finite; queries and keys are damaged or too large for fp32");
  }
  recorder_.rows(layer, head, block, probabilities, std::span(lse).first(rows.size()));
}

void ExternalRun::finish(std::uint32_t tokens, std::span<const std::uint32_t> ids,
                         std::span<const std::string> pieces) {
  for (std::size_t at = 0; at < positions_.size(); ++at) {
    if (positions_[at] == tokens) continue;
    throw std::invalid_argument("layer " + std::to_string(planned_.layers[at]) + " was given " +
                                std::to_string(positions_[at]) +
                                " tokens, and the trace is to end with " + std::to_string(tokens));
  }
  if (tokens == 0) throw std::invalid_argument("a trace of no tokens is none");
  if (planned_.sampling.first >= tokens) {
    throw std::invalid_argument("the run ended after " + std::to_string(tokens) +
                                " tokens, before row " + std::to_string(planned_.sampling.first) +
                                ", the first to record");
  }
  recorder_.finish(tokens, ids, pieces);
}

}  // namespace kvreplay
