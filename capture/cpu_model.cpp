#include "capture/cpu_model.hpp"

#include <tbb/parallel_for.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <atomic>
#include <stdexcept>

#include "capture/attention.hpp"

namespace kvreplay {
namespace {

using Vector = Eigen::Map<Eigen::ArrayXf>;
using ConstVector = Eigen::Map<const Eigen::ArrayXf>;

/// Work on each token that is too small to share out one by one.
template <class Body>
void for_each_token(std::uint32_t tokens, const Body& body) {
  tbb::parallel_for(tbb::blocked_range<std::uint32_t>(0, tokens, 16),
                    [&](const tbb::blocked_range<std::uint32_t>& range) {
                      for (std::uint32_t token = range.begin(); token < range.end(); ++token)
                        body(token);
                    });
}

}  // namespace

CpuModel::Sizes CpuModel::sizes(const LlamaConfig& config, const CpuOptions& options,
                                std::uint32_t capacity) {
  const std::uint64_t d = config.head_size;
  const std::uint64_t chunk = options.chunk;
  Sizes sizes{};
  sizes.cache = std::uint64_t{config.layers} * config.kv_heads * 2 * capacity * d;
  sizes.hidden = chunk * config.embedding;
  sizes.normed = sizes.hidden;
  sizes.qkv = chunk * (config.heads + 2 * config.kv_heads) * d;
  sizes.mixed = chunk * config.heads * d;
  sizes.gated = chunk * 2 * config.feed_forward;
  sizes.scores = options.query_block * RowLayout::padded_length(capacity - 1);
  sizes.rope = std::uint64_t{capacity} * config.rope.dimensions;
  return sizes;
}

std::uint64_t CpuModel::working_bytes(const LlamaConfig& config, const CpuOptions& options,
                                      std::uint32_t capacity) {
  const Sizes s = sizes(config, options, capacity);
  return sizeof(float) * (s.cache + s.hidden + s.normed + s.qkv + s.mixed + s.gated + s.rope +
                          s.scores * options.threads);
}

CpuModel::CpuModel(const GgufFile& file, const LlamaConfig& config, const CpuOptions& options)
    : path_(file.path().string()),
      config_(config),
      options_(options),
      arena_(static_cast<int>(options.threads)),
      weights_(arena_.execute([&] { return LlamaWeights(file, config); })) {
  if (options.query_block == 0 || options.query_block > RowLayout::kBlock || options.chunk == 0)
    throw std::invalid_argument("the query block must be 1..64 and the chunk at least 1");
  Eigen::setNbThreads(1);
}

void CpuModel::start(std::uint32_t capacity, AttentionSink* sink) {
  if (capacity == 0) throw std::invalid_argument("a run needs room for at least one token");
  if (capacity != capacity_) {
    const Sizes s = sizes(config_, options_, capacity);
    cache_ = FloatBuffer(s.cache, "the KV cache");
    hidden_ = FloatBuffer(s.hidden, "activations");
    normed_ = FloatBuffer(s.normed, "activations");
    qkv_ = FloatBuffer(s.qkv, "activations");
    mixed_ = FloatBuffer(s.mixed, "activations");
    gated_ = FloatBuffer(s.gated, "activations");
    scores_ = tbb::enumerable_thread_specific<FloatBuffer>(
        [values = s.scores] { return FloatBuffer(values, "attention scores"); });
    rope_ = RopeTable(config_.rope, capacity);
    capacity_ = capacity;
  }
  sink_ = sink;
  position_ = 0;
  last_tokens_ = 0;
}

float* CpuModel::keys(std::uint32_t layer, std::uint32_t kv_head) const {
  const std::uint64_t one = std::uint64_t{capacity_} * config_.head_size;
  return cache_.data() + (std::uint64_t{layer} * config_.kv_heads + kv_head) * 2 * one;
}

float* CpuModel::values(std::uint32_t layer, std::uint32_t kv_head) const {
  return keys(layer, kv_head) + std::uint64_t{capacity_} * config_.head_size;
}

void CpuModel::forward(std::span<const std::uint32_t> ids, const RunControl& control) {
  check_ids(config_, ids, std::min(options_.chunk, capacity_ - position_));
  const auto tokens = static_cast<std::uint32_t>(ids.size());
  last_tokens_ = 0;
  for (std::uint32_t token = 0; token < tokens; ++token)
    std::copy_n(weights_.embedding.data + std::uint64_t{ids[token]} * config_.embedding,
                config_.embedding, hidden_.data() + std::uint64_t{token} * config_.embedding);
  arena_.execute([&] {
    for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
      control.throw_if_stopped();
      run_layer(layer, tokens);
    }
  });
  position_ += tokens;
  last_tokens_ = tokens;
}

void CpuModel::run_layer(std::uint32_t index, std::uint32_t tokens) {
  const LlamaLayer& layer = weights_.layers[index];
  const std::uint64_t f = config_.feed_forward;
  const Activations hidden{hidden_.data(), config_.embedding};
  const Activations normed{normed_.data(), config_.embedding};
  const Activations mixed{mixed_.data(), layer.attention_out.in};
  const Activations gated{gated_.data(), 2 * f};

  normalise(0, tokens, layer.attention_norm);
  multiply(layer.qkv, normed, tokens, {qkv_.data(), layer.qkv.out}, Store::assign);
  place_queries_and_keys(index, tokens);
  attend_all(index, tokens);
  multiply(layer.attention_out, mixed, tokens, hidden, Store::add);

  normalise(0, tokens, layer.feed_forward_norm);
  multiply(layer.gate_up, normed, tokens, gated, Store::assign);
  for_each_token(tokens, [&](std::uint32_t token) {  // SwiGLU, into the gate's place
    Vector gate(gated.data + token * gated.stride, static_cast<Eigen::Index>(f));
    const ConstVector up(gate.data() + f, static_cast<Eigen::Index>(f));
    gate = gate / (1 + (-gate).exp()) * up;
  });
  multiply(layer.down, gated, tokens, hidden, Store::add);
}

void CpuModel::normalise(std::uint32_t first, std::uint32_t tokens, const float* gain) {
  const Eigen::Index size = config_.embedding;
  for_each_token(tokens, [&](std::uint32_t token) {
    const ConstVector in(hidden_.data() + (std::uint64_t{first} + token) * config_.embedding, size);
    Vector out(normed_.data() + std::uint64_t{token} * config_.embedding, size);
    const double mean = in.square().sum() / static_cast<double>(size);
    out = in * static_cast<float>(1 / std::sqrt(mean + config_.rms_epsilon)) *
          ConstVector(gain, size);
  });
}

void CpuModel::place_queries_and_keys(std::uint32_t layer, std::uint32_t tokens) {
  const std::uint64_t d = config_.head_size;
  const std::uint64_t stride = (config_.heads + 2 * config_.kv_heads) * d;
  for_each_token(tokens, [&](std::uint32_t token) {
    float* next = qkv_.data() + token * stride;
    const std::uint32_t position = position_ + token;
    for (std::uint32_t head = 0; head < config_.heads; ++head, next += d)
      rope_.rotate(next, position);
    for (std::uint32_t head = 0; head < config_.kv_heads; ++head, next += d) {
      rope_.rotate(next, position);
      std::copy_n(next, d, keys(layer, head) + position * d);
    }
    for (std::uint32_t head = 0; head < config_.kv_heads; ++head, next += d)
      std::copy_n(next, d, values(layer, head) + position * d);
  });
}

void CpuModel::attend_all(std::uint32_t layer, std::uint32_t tokens) {
  // Blocks end where RowLayout's do, so that all rows of a block have one padded length.
  std::vector<RowRange> blocks;
  for (std::uint32_t row = position_; row < position_ + tokens;) {
    const std::uint32_t layout_end = (row / RowLayout::kBlock + 1) * RowLayout::kBlock;
    const std::uint32_t last =
        std::min({row + options_.query_block, layout_end, position_ + tokens});
    blocks.push_back({row, last});
    row = last;
  }
  const std::uint64_t d = config_.head_size;
  const std::uint64_t query_stride = (config_.heads + 2 * config_.kv_heads) * d;
  const std::uint64_t output_stride = config_.heads * d;
  const std::size_t tasks = blocks.size() * config_.heads;
  const auto attend_one = [&](std::size_t task) {
    const auto head = static_cast<std::uint32_t>(task % config_.heads);
    const RowRange rows = blocks[task / config_.heads];
    const std::uint64_t token = rows.first - position_;
    AttentionBlock block;
    block.rows = rows;
    block.factors.head_size = config_.head_size;
    block.factors.attention.scale = config_.attention_scale;
    block.factors.queries = qkv_.data() + token * query_stride + head * d;
    block.factors.query_stride = query_stride;
    block.factors.keys = keys(layer, head / config_.group_size());
    block.values = values(layer, head / config_.group_size());
    block.output = mixed_.data() + token * output_stride + head * d;
    block.output_stride = output_stride;

    std::array<float, RowLayout::kBlock> lse{};
    const auto probabilities = scores_.local().span().first(rows.values());
    if (!attend(block, probabilities, lse)) throw scores_not_finite(path_, layer, head, rows.first);
    if (sink_ != nullptr && sink_->wants(layer, head))
      sink_->rows(layer, head, block, probabilities, std::span(lse).first(rows.size()));
  };
  // In row order, not in TBB's halves: a sink that writes rows in order must not keep many back.
  std::atomic<std::size_t> next{0};
  tbb::parallel_for(0, tbb::this_task_arena::max_concurrency(), [&](int) {
    for (std::size_t task = next++; task < tasks; task = next++) attend_one(task);
  });
}

void CpuModel::logits(std::uint32_t first, std::uint32_t count, std::span<float> out) {
  check_logits(config_, first, count, last_tokens_, out.size());
  arena_.execute([&] {
    normalise(first, count, weights_.output_norm);
    multiply(weights_.head, {normed_.data(), config_.embedding}, count,
             {out.data(), config_.vocabulary}, Store::assign);
  });
}

}  // namespace kvreplay
