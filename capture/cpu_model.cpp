#include "capture/cpu_model.hpp"

#include <tbb/parallel_for.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <atomic>
#include <stdexcept>

#include "capture/activation.hpp"
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

void add_bias(const LinearTensors& linear, std::uint32_t tokens, Activations y) {
  if (linear.bias == nullptr) return;
  const Eigen::Index size = linear.weight.out;
  const ConstVector bias(linear.bias, size);
  for_each_token(tokens,
                 [&](std::uint32_t token) { Vector(y.data + token * y.stride, size) += bias; });
}

void apply(Activation activation, Vector& x) {
  if (activation == Activation::silu)  // in vectors
    x = x / (1 + (-x).exp());
  else
    x = x.unaryExpr([activation](float value) { return activate(activation, value); });
}

/// `out` may be `in`.
void normalise_one(NormKind kind, const NormTensors& norm, double epsilon, const ConstVector& in,
                   Vector out) {
  const auto size = static_cast<double>(in.size());
  const ConstVector gain(norm.gain, in.size());
  if (kind == NormKind::rms) {
    const double mean = in.square().sum() / size;
    out = in * static_cast<float>(1 / std::sqrt(mean + epsilon)) * gain;
    return;
  }
  const auto mean = static_cast<float>(in.sum() / size);
  const double variance = (in - mean).square().sum() / size;
  out = (in - mean) * static_cast<float>(1 / std::sqrt(variance + epsilon)) * gain +
        ConstVector(norm.bias, in.size());
}

}  // namespace

CpuModel::Sizes CpuModel::sizes(const ModelConfig& config, const CpuOptions& options,
                                std::uint32_t capacity) {
  const std::uint64_t d = config.head_size;
  const std::uint64_t chunk = options.chunk;
  Sizes sizes{};
  sizes.cache = std::uint64_t{config.layers} * config.kv_heads * 2 * capacity * d;
  sizes.hidden = chunk * config.embedding;
  sizes.normed = sizes.hidden;
  sizes.qkv = chunk * config.qkv_size();
  sizes.mixed = chunk * config.heads * d;
  sizes.gated = chunk * config.inner_size();
  sizes.scores = options.query_block * RowLayout::padded_length(capacity - 1);
  sizes.rope = std::uint64_t{capacity} * config.rope.dimensions;
  sizes.window_rope =
      config.window_rope ? std::uint64_t{capacity} * config.window_rope->dimensions : 0;
  return sizes;
}

std::uint64_t CpuModel::working_bytes(const ModelConfig& config, const CpuOptions& options,
                                      std::uint32_t capacity) {
  const Sizes s = sizes(config, options, capacity);
  return sizeof(float) * (s.cache + s.hidden + s.normed + s.qkv + s.mixed + s.gated + s.rope +
                          s.window_rope + s.scores * options.threads);
}

CpuModel::CpuModel(const TensorSource& source, const ModelConfig& config, const CpuOptions& options)
    : path_(source.path().string()),
      config_(config),
      options_(options),
      arena_(static_cast<int>(options.threads)),
      weights_(arena_.execute([&] { return ModelWeights(source, config); })) {
  if (options.query_block == 0 || options.query_block > RowLayout::kBlock || options.chunk == 0)
    throw std::invalid_argument("the query block must be 1..64 and the chunk at least 1");
  Eigen::setNbThreads(1);
}

void CpuModel::start(std::uint32_t capacity, AttentionSink* sink) {
  check_capacity(config_, capacity);
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
    if (config_.window_rope) window_rope_ = RopeTable(*config_.window_rope, capacity);
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
  arena_.execute([&] {
    embed(ids);
    for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
      control.throw_if_stopped();
      run_layer(layer, tokens);
    }
  });
  position_ += tokens;
  last_tokens_ = tokens;
}

void CpuModel::embed(std::span<const std::uint32_t> ids) {
  const Eigen::Index size = config_.embedding;
  const auto row = [](const Matrix& table, std::uint64_t i) {
    return ConstVector(table.data + i * table.in, table.in);
  };
  const auto tokens = static_cast<std::uint32_t>(ids.size());
  const bool projected = config_.projected_from > 0;
  const Activations looked_up{projected ? normed_.data() : hidden_.data(), config_.token_size()};
  for_each_token(tokens, [&](std::uint32_t token) {
    Vector(looked_up.data + token * looked_up.stride, config_.token_size()) =
        row(weights_.embedding, ids[token]);
  });
  if (projected)
    multiply(weights_.project_in, looked_up, tokens, {hidden_.data(), config_.embedding},
             Store::assign);
  for_each_token(tokens, [&](std::uint32_t token) {
    Vector out(hidden_.data() + std::uint64_t{token} * config_.embedding, size);
    if (config_.structure.scaled_embedding) out *= embedding_scale(config_);
    if (config_.structure.positions == Positions::learned)
      out += row(weights_.positions, position_ + token);
  });
}

void CpuModel::run_layer(std::uint32_t index, std::uint32_t tokens) {
  const LayerTensors& layer = weights_.layers[index];
  const bool behind = config_.structure.norms_behind;
  float* const hidden = hidden_.data();
  float* const normed = normed_.data();
  const Activations in{behind ? hidden : normed, config_.embedding};
  const Activations qkv{qkv_.data(), config_.qkv_size()};

  if (!behind) normalise(hidden, tokens, layer.attention_norm, normed);
  multiply(layer.qkv.weight, in, tokens, qkv, Store::assign);
  add_bias(layer.qkv, tokens, qkv);
  place_queries_and_keys(index, tokens);
  attend_all(index, tokens);

  // Both parts of a parallel residual see what the layer was given.
  const bool parallel = config_.structure.parallel_residual;
  if (parallel) normalise(hidden, tokens, layer.feed_forward_norm, normed);
  add_to_hidden(layer.attention_out, {mixed_.data(), layer.attention_out.weight.in},
                layer.post_attention_norm, tokens);
  if (behind)
    normalise(hidden, tokens, layer.attention_norm, hidden);
  else if (!parallel)
    normalise(hidden, tokens, layer.feed_forward_norm, normed);
  feed_forward(layer, in, tokens);
  if (behind) normalise(hidden, tokens, layer.feed_forward_norm, hidden);
}

void CpuModel::feed_forward(const LayerTensors& layer, Activations in, std::uint32_t tokens) {
  const Activations gated{gated_.data(), config_.inner_size()};
  const Eigen::Index size = config_.feed_forward;
  multiply(layer.up.weight, in, tokens, gated, Store::assign);
  add_bias(layer.up, tokens, gated);
  for_each_token(tokens, [&](std::uint32_t token) {  // into the gate's place
    Vector inner(gated.data + token * gated.stride, size);
    apply(config_.structure.activation, inner);
    if (config_.structure.gated) inner *= ConstVector(inner.data() + size, size);
  });
  add_to_hidden(layer.down, gated, layer.post_feed_forward_norm, tokens);
}

void CpuModel::add_to_hidden(const LinearTensors& linear, Activations x, const NormTensors& norm,
                             std::uint32_t tokens) {
  const Activations hidden{hidden_.data(), config_.embedding};
  if (norm.gain == nullptr) {
    multiply(linear.weight, x, tokens, hidden, Store::add);
    add_bias(linear, tokens, hidden);
    return;
  }
  const Activations normed{normed_.data(), config_.embedding};
  multiply(linear.weight, x, tokens, normed, Store::assign);
  add_bias(linear, tokens, normed);
  normalise(normed.data, tokens, norm, normed.data);
  const Eigen::Index size = config_.embedding;
  for_each_token(tokens, [&](std::uint32_t token) {
    Vector(hidden.data + token * hidden.stride, size) +=
        ConstVector(normed.data + token * normed.stride, size);
  });
}

void CpuModel::normalise(const float* from, std::uint32_t tokens, const NormTensors& norm,
                         float* to) {
  const Eigen::Index size = config_.embedding;
  for_each_token(tokens, [&](std::uint32_t token) {
    const std::uint64_t at = std::uint64_t{token} * config_.embedding;
    normalise_one(config_.structure.norm, norm, config_.epsilon, ConstVector(from + at, size),
                  Vector(to + at, size));
  });
}

void CpuModel::place_queries_and_keys(std::uint32_t layer, std::uint32_t tokens) {
  const LayerTensors& tensors = weights_.layers[layer];
  const RopeTable& rope = config_.turns_by_window_rope(layer) ? window_rope_ : rope_;
  const std::uint64_t d = config_.head_size;
  const auto place = [&](float* vector, const float* gain, std::uint32_t position) {
    if (gain != nullptr) {
      const Eigen::Index size = config_.head_size;
      normalise_one(NormKind::rms, {gain, nullptr}, config_.epsilon, ConstVector(vector, size),
                    Vector(vector, size));
    }
    rope.rotate(vector, position);
  };
  for_each_token(tokens, [&](std::uint32_t token) {
    float* next = qkv_.data() + std::uint64_t{token} * config_.qkv_size();
    const std::uint32_t position = position_ + token;
    for (std::uint32_t head = 0; head < config_.heads; ++head, next += d)
      place(next, tensors.query_norm, position);
    for (std::uint32_t head = 0; head < config_.kv_heads; ++head, next += d) {
      place(next, tensors.key_norm, position);
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
  const std::uint64_t query_stride = config_.qkv_size();
  const std::uint64_t output_stride = config_.heads * d;
  const std::size_t tasks = blocks.size() * config_.heads;
  const auto attend_one = [&](std::size_t task) {
    const auto head = static_cast<std::uint32_t>(task % config_.heads);
    const RowRange rows = blocks[task / config_.heads];
    const std::uint64_t token = rows.first - position_;
    AttentionBlock block;
    block.rows = rows;
    block.factors.head_size = config_.head_size;
    block.factors.attention = config_.attention[layer];
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
    Activations last{hidden_.data() + std::uint64_t{first} * config_.embedding, config_.embedding};
    if (config_.structure.output_norm) {
      normalise(last.data, count, weights_.output_norm, normed_.data());
      last.data = normed_.data();
    }
    if (config_.projected_from > 0) {  // to where no queries are by now
      const Activations projected{qkv_.data(), config_.token_size()};
      multiply(weights_.project_out, last, count, projected, Store::assign);
      last = projected;
    }
    multiply(weights_.head, last, count, {out.data(), config_.vocabulary}, Store::assign);
  });
  cap_logits(config_, out);
}

}  // namespace kvreplay
