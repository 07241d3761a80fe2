// A model in fp32 on a device, written over a small set of operations, so that one
// source runs on a GPU (CudaDevice) and, in tests, on the CPU. A Device has
//
//   Memory<T>                  an array of its memory: data()
//   HostMemory                 bytes of the host's that it copies to fast: data()
//   Download                   a copy to the host under way: wait(), as its destructor
//   allocate<T>(count)         Memory<T>, not set; throws where there is none
//   host_memory(bytes)         HostMemory, not set
//   upload(to, bytes)          returns when it is done
//   launch(kernel)             queues a kernel of this folder behind what was queued before
//   multiply(weight, x, tokens, y, store)   queues y = or += x weight^T, see products.hpp
//   download(to, from, bytes)  Download that begins when all that is queued so far is done, and
//                              keeps nothing waiting that is queued later
//   blocks_at_once()           blocks of threads that keep all of it busy
//   most_shared_bytes()        shared storage that a block may have
//   name()
//
// and is used by one thread, but that any thread may wait for a Download.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "capture/cuda/attention.hpp"
#include "capture/cuda/elementwise.hpp"
#include "capture/cuda/layer_norm.hpp"
#include "capture/cuda/memory_plan.hpp"
#include "capture/cuda/rms_norm.hpp"
#include "capture/cuda/row_ring.hpp"
#include "capture/model.hpp"
#include "capture/model_weights.hpp"
#include "capture/rope.hpp"

namespace kvreplay::cuda {

template <class Device>
class DeviceModel final : public Model {
 public:
  /// Loads the weights onto the device, of whose memory a run uses at most `limit` bytes. Throws as
  /// ModelWeights does, and std::invalid_argument where the device does not do.
  DeviceModel(const TensorSource& source, const ModelConfig& config, std::shared_ptr<Device> device,
              std::uint64_t limit)
      : path_(source.path().string()), config_(config), device_(std::move(device)), limit_(limit) {
    if (config.head_size > kLargestHead)
      throw std::invalid_argument(path_ + ": heads of " + std::to_string(config.head_size) +
                                  " values are more than the " + std::to_string(kLargestHead) +
                                  " that a device attends with; use the CPU");
    weight_bytes_ = ModelWeights::values(source) * sizeof(float);
    const ModelWeights weights(source, config);
    weights_ = floats(weights.all().size());
    device_->upload(weights_.data(), std::as_bytes(weights.all()));
    tensors_ = weights.copied_to(weights_.data());
  }

  const ModelConfig& config() const override { return config_; }
  std::uint32_t position() const override { return position_; }
  std::uint32_t chunk() const override { return memory_.chunk; }
  /// What the run that was started takes.
  const MemoryPlan& memory() const { return memory_; }

  void start(std::uint32_t capacity, AttentionSink* sink) override {
    check_capacity(config_, capacity);
    const TraceInfo* plan = sink == nullptr ? nullptr : &sink->plan();
    free_buffers();
    memory_ = plan_memory(config_, weight_bytes_, capacity, plan, limit_);
    capacity_ = capacity;
    sink_ = sink;
    recorded_layers_.assign(config_.layers, false);
    if (plan != nullptr) {
      for (const std::uint32_t layer : plan->layers) recorded_layers_.at(layer) = true;
      ring_ = std::make_shared<RowRing<Device>>(device_, shape(0), *plan, memory_);
    }
    allocate_buffers();
    position_ = 0;
    last_tokens_ = 0;
  }

  void forward(std::span<const std::uint32_t> ids, const RunControl& control) override {
    check_ids(config_, ids, std::min(memory_.chunk, capacity_ - position_));
    const auto tokens = static_cast<std::uint32_t>(ids.size());
    last_tokens_ = 0;
    embed(ids);
    for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
      control.throw_if_stopped();
      run_layer(layer, tokens);
    }
    check_scores(tokens);
    position_ += tokens;
    last_tokens_ = tokens;
  }

  void logits(std::uint32_t first, std::uint32_t count, std::span<float> out) override {
    check_logits(config_, first, count, last_tokens_, out.size());
    for (std::uint32_t done = 0; done < count; done += kLogitsTokens) {
      const std::uint32_t tokens = std::min(kLogitsTokens, count - done);
      Activations last{hidden_.data() + std::uint64_t{first + done} * config_.embedding,
                       config_.embedding};
      if (config_.structure.output_norm) {
        normalise(last.data, tokens, tensors_.output_norm, normed_.data());
        last.data = normed_.data();
      }
      if (config_.projected_from > 0) {  // to where no queries are by now
        const Activations projected{qkv_.data(), config_.token_size()};
        device_->multiply(tensors_.project_out, last, tokens, projected, Store::assign);
        last = projected;
      }
      device_->multiply(tensors_.head, last, tokens, {logits_.data(), config_.vocabulary},
                        Store::assign);
      const auto part = out.subspan(std::uint64_t{done} * config_.vocabulary,
                                    std::uint64_t{tokens} * config_.vocabulary);
      device_
          ->download(std::as_writable_bytes(part).data(),
                     reinterpret_cast<const std::byte*>(logits_.data()), part.size_bytes())
          .wait();
    }
    cap_logits(config_, out);
  }

 private:
  template <class T>
  using Memory = typename Device::template Memory<T>;
  static constexpr std::uint32_t kLargestHead = 256;

  Memory<float> floats(std::uint64_t count) { return device_->template allocate<float>(count); }

  void free_buffers() {
    ring_.reset();
    for (Memory<float>* buffer : {&cache_, &turns_, &window_turns_, &hidden_, &normed_, &qkv_,
                                  &mixed_, &gated_, &lse_parts_, &lse_, &partial_, &logits_})
      *buffer = {};
    ids_ = {};
    capacity_ = position_ = last_tokens_ = 0;
  }

  /// What MemoryPlan counts.
  void allocate_buffers() {
    const std::uint64_t d = config_.head_size;
    const std::uint64_t heads = config_.heads;
    const std::uint64_t chunk = memory_.chunk;
    cache_ = floats(config_.layers * config_.kv_heads * 2 * kv_stride());
    turns_ = upload_turns(config_.rope);
    if (config_.window_rope) window_turns_ = upload_turns(*config_.window_rope);
    ids_ = device_->template allocate<std::uint32_t>(chunk);
    hidden_ = floats(chunk * config_.embedding);
    normed_ = floats(chunk * config_.embedding);
    qkv_ = floats(chunk * config_.qkv_size());
    mixed_ = floats(chunk * heads * d);
    gated_ = floats(chunk * config_.inner_size());
    lse_parts_ = floats(2 * heads * chunk);
    lse_ = floats(config_.layers * heads * chunk);
    lse_on_host_ = device_->host_memory(config_.layers * heads * chunk * sizeof(float));
    partial_ = floats(heads * kMostSplits * kFewRows * (d + 2));
    logits_ = floats(std::min<std::uint64_t>(chunk, kLogitsTokens) * config_.vocabulary);
  }

  Memory<float> upload_turns(const RopeConfig& rope) {
    const RopeTable table(rope, capacity_);
    Memory<float> turns = floats(table.turns().size());
    device_->upload(turns.data(), std::as_bytes(table.turns()));
    return turns;
  }

  AttentionShape shape(std::uint32_t layer) const {
    const LayerAttention& attention = config_.attention[layer];
    AttentionShape shape;
    shape.heads = config_.heads;
    shape.kv_heads = config_.kv_heads;
    shape.head_size = config_.head_size;
    shape.window = attention.window;
    shape.scale = static_cast<float>(attention.scale);
    shape.softcap = static_cast<float>(attention.softcap);
    return shape;
  }

  std::uint64_t kv_stride() const { return std::uint64_t{capacity_} * config_.head_size; }
  /// [KV head][K, V][capacity][d] of a layer.
  float* cache(std::uint32_t layer) const {
    return cache_.data() + std::uint64_t{layer} * config_.kv_heads * 2 * kv_stride();
  }

  void embed(std::span<const std::uint32_t> ids) {
    device_->upload(ids_.data(), std::as_bytes(ids));
    Gather gather;
    gather.from = tensors_.embedding.data;
    gather.head_stride = config_.token_size();
    gather.heads = ids_.data();
    gather.chosen = static_cast<std::uint32_t>(ids.size());
    gather.rows = 1;
    gather.size = config_.token_size();
    const bool projected = config_.projected_from > 0;
    gather.to = projected ? normed_.data() : hidden_.data();
    device_->launch(gather);
    if (projected)
      device_->multiply(tensors_.project_in, {normed_.data(), gather.size}, gather.chosen,
                        {hidden_.data(), config_.embedding}, Store::assign);
    const Structure& structure = config_.structure;
    const bool learned = structure.positions == Positions::learned;
    if (!structure.scaled_embedding && !learned) return;
    const float* positions = tensors_.positions.data;
    if (learned) positions += std::uint64_t{position_} * config_.embedding;
    add_rows({hidden_.data(), config_.embedding}, config_.embedding, gather.chosen, positions,
             config_.embedding, embedding_scale(config_));
  }

  void run_layer(std::uint32_t index, std::uint32_t tokens) {
    const LayerTensors& layer = tensors_.layers[index];
    const bool behind = config_.structure.norms_behind;
    float* const hidden = hidden_.data();
    float* const normed = normed_.data();
    const Activations in{behind ? hidden : normed, config_.embedding};
    const Activations qkv{qkv_.data(), config_.qkv_size()};

    if (!behind) normalise(hidden, tokens, layer.attention_norm, normed);
    device_->multiply(layer.qkv.weight, in, tokens, qkv, Store::assign);
    add_bias(layer.qkv, tokens, qkv);
    place_queries_and_keys(index, tokens);
    const AttendedRows attended = attend(index, tokens);
    if (recorded_layers_[index]) ring_->record(attended, *sink_);

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

  void feed_forward(const LayerTensors& layer, Activations in, std::uint32_t tokens) {
    const Activations gated{gated_.data(), config_.inner_size()};
    device_->multiply(layer.up.weight, in, tokens, gated, Store::assign);
    add_bias(layer.up, tokens, gated);
    Activate inner;
    inner.activation = config_.structure.activation;
    inner.gated = config_.structure.gated;
    inner.values = gated_.data();
    inner.tokens = tokens;
    inner.size = config_.feed_forward;
    device_->launch(inner);
    add_to_hidden(layer.down, gated, layer.post_feed_forward_norm, tokens);
  }

  /// hidden += what the layer's part gives of `x`, normalised first where the layer has `norm`.
  void add_to_hidden(const LinearTensors& linear, Activations x, const NormTensors& norm,
                     std::uint32_t tokens) {
    const Activations hidden{hidden_.data(), config_.embedding};
    if (norm.gain == nullptr) {
      device_->multiply(linear.weight, x, tokens, hidden, Store::add);
      add_bias(linear, tokens, hidden);
      return;
    }
    const Activations normed{normed_.data(), config_.embedding};
    device_->multiply(linear.weight, x, tokens, normed, Store::assign);
    add_bias(linear, tokens, normed);
    normalise(normed.data, tokens, norm, normed.data);
    add_rows(hidden, config_.embedding, tokens, normed_.data(), config_.embedding);
  }

  void add_bias(const LinearTensors& linear, std::uint32_t tokens, Activations y) {
    if (linear.bias != nullptr) add_rows(y, linear.weight.out, tokens, linear.bias, 0);
  }

  void add_rows(Activations to, std::uint32_t size, std::uint32_t tokens, const float* rows,
                std::uint64_t row_stride, float scale = 1) {
    AddRows add;
    add.to = to.data;
    add.to_stride = to.stride;
    add.scale = scale;
    add.rows = rows;
    add.row_stride = row_stride;
    add.tokens = tokens;
    add.size = size;
    device_->launch(add);
  }

  /// Tokens [embedding] from `from` to `to`; they may be the same.
  void normalise(const float* from, std::uint32_t tokens, const NormTensors& tensors, float* to) {
    const auto launch = [&](auto norm) {
      norm.from = from;
      norm.to = to;
      norm.gain = tensors.gain;
      norm.tokens = tokens;
      norm.size = config_.embedding;
      norm.epsilon = config_.epsilon;
      if constexpr (std::is_same_v<decltype(norm), LayerNorm>)
        norm.bias = tensors.bias;
      else
        norm.stride = config_.embedding;
      device_->launch(norm);
    };
    if (config_.structure.norm == NormKind::layer)
      launch(LayerNorm());
    else
      launch(RmsNorm());
  }

  /// Each of the heads of Q, or of K, in place.
  void normalise_heads(std::uint32_t first_head, std::uint32_t heads, const float* gain,
                       std::uint32_t tokens) {
    RmsNorm norm;
    norm.from = norm.to = qkv_.data() + std::uint64_t{first_head} * config_.head_size;
    norm.stride = config_.qkv_size();
    norm.gain = gain;
    norm.tokens = tokens;
    norm.heads = heads;
    norm.size = config_.head_size;
    norm.epsilon = config_.epsilon;
    device_->launch(norm);
  }

  /// Turns queries in place, and keys into the cache; values go there as they are.
  void place_queries_and_keys(std::uint32_t layer, std::uint32_t tokens) {
    const std::uint64_t d = config_.head_size;
    const std::uint32_t heads = config_.heads;
    if (config_.structure.qk_norm) {
      normalise_heads(0, heads, tensors_.layers[layer].query_norm, tokens);
      normalise_heads(heads, config_.kv_heads, tensors_.layers[layer].key_norm, tokens);
    }
    const bool by_window = config_.turns_by_window_rope(layer);
    const RopeConfig& turned = by_window ? *config_.window_rope : config_.rope;
    Rope rope;
    rope.turns = (by_window ? window_turns_ : turns_).data();
    rope.neox = turned.pairs == RopePairs::halves;
    rope.position = position_;
    rope.tokens = tokens;
    rope.head_size = config_.head_size;
    rope.from_stride = config_.qkv_size();
    const auto place = [&](std::uint32_t first_head, std::uint32_t count, std::uint32_t dimensions,
                           float* to, std::uint64_t to_stride, std::uint64_t to_head_stride) {
      rope.from = qkv_.data() + first_head * d;
      rope.heads = count;
      rope.dimensions = dimensions;
      rope.to = to;
      rope.to_stride = to_stride;
      rope.to_head_stride = to_head_stride;
      device_->launch(rope);
    };
    float* const keys = cache(layer) + position_ * d;
    if (turned.dimensions > 0) place(0, heads, turned.dimensions, qkv_.data(), rope.from_stride, d);
    place(heads, config_.kv_heads, turned.dimensions, keys, d, 2 * kv_stride());
    place(heads + config_.kv_heads, config_.kv_heads, 0, keys + kv_stride(), d, 2 * kv_stride());
  }

  AttendedRows attend(std::uint32_t layer, std::uint32_t tokens) {
    AttendedRows rows;
    rows.layer = layer;
    rows.shape = shape(layer);
    rows.in = {position_,          position_ + tokens, qkv_.data(),
               config_.qkv_size(), cache(layer),       2 * kv_stride()};
    rows.values = cache(layer) + kv_stride();
    const std::uint64_t of_layer = std::uint64_t{config_.heads} * tokens;
    rows.lse = {lse_parts_.data(), lse_parts_.data() + of_layer, lse_.data() + layer * of_layer,
                tokens};
    // A head of 256 values leaves no room for a large tile in 64 KiB of shared storage.
    const bool few = tokens <= kFewRows;
    if (config_.head_size > 128)
      attend_by<kFewRows, 256>(rows);
    else if (config_.head_size > 64)
      few ? attend_by<kFewRows, 128>(rows) : attend_by<RowLayout::kBlock, 128>(rows);
    else
      few ? attend_by<kFewRows, 64>(rows) : attend_by<RowLayout::kBlock, 64>(rows);
    return rows;
  }

  template <std::uint32_t kTileRows, std::uint32_t kHead>
  void attend_by(const AttendedRows& rows) {
    Attend<kTileRows, kHead> kernel;
    kernel.shape = rows.shape;
    kernel.in = rows.in;
    kernel.values = rows.values;
    kernel.output = mixed_.data();
    kernel.output_stride = std::uint64_t{config_.heads} * config_.head_size;
    kernel.lse = rows.lse;
    if (rows.in.rows() <= kFewRows) share_out_keys(kernel);
    device_->launch(kernel);
    if (kernel.splits == 1) return;
    MergeAttention merge;
    merge.rows = rows.in.rows();
    merge.heads = config_.heads;
    merge.head_size = config_.head_size;
    merge.splits = kernel.splits;
    merge.partial = kernel.partial;
    merge.output = kernel.output;
    merge.output_stride = kernel.output_stride;
    merge.lse = rows.lse;
    device_->launch(merge);
  }

  /// One tile of rows a head would leave most of a device idle while decoding.
  template <class Kernel>
  void share_out_keys(Kernel& kernel) {
    const std::uint32_t key_tiles = divide_up(kernel.in.last, Kernel::Tile::kKeys);
    kernel.splits =
        std::min({divide_up(device_->blocks_at_once(), config_.heads), key_tiles, kMostSplits});
    const std::uint64_t rows = std::uint64_t{kernel.splits} * config_.heads * kernel.in.rows();
    kernel.partial = {partial_.data(), partial_.data() + rows, partial_.data() + 2 * rows};
  }

  /// Waits for all that was queued.
  void check_scores(std::uint32_t tokens) {
    const std::uint64_t count = std::uint64_t{config_.layers} * config_.heads * tokens;
    device_
        ->download(lse_on_host_.data(), reinterpret_cast<const std::byte*>(lse_.data()),
                   count * sizeof(float))
        .wait();
    const auto* lse = reinterpret_cast<const float*>(lse_on_host_.data());
    const auto* bad = std::find_if(lse, lse + count, [](float x) { return !std::isfinite(x); });
    if (bad == lse + count) return;
    const auto at = static_cast<std::uint64_t>(bad - lse);
    throw scores_not_finite(path_, static_cast<std::uint32_t>(at / tokens / config_.heads),
                            static_cast<std::uint32_t>(at / tokens % config_.heads),
                            position_ + static_cast<std::uint32_t>(at % tokens));
  }

  std::string path_;  // for messages
  ModelConfig config_;
  std::shared_ptr<Device> device_;
  std::uint64_t limit_;
  std::uint64_t weight_bytes_ = 0;
  Memory<float> weights_;
  ModelTensors tensors_;  // on the device

  MemoryPlan memory_;
  AttentionSink* sink_ = nullptr;
  std::vector<bool> recorded_layers_;
  std::shared_ptr<RowRing<Device>> ring_;
  std::uint32_t capacity_ = 0;
  std::uint32_t position_ = 0;
  std::uint32_t last_tokens_ = 0;  // of the last forward()

  Memory<float> cache_;  // [layer][KV head][K, V][capacity][d]
  Memory<float> turns_;  // RopeTable's
  Memory<float> window_turns_;
  // One row a token of the chunk.
  Memory<std::uint32_t> ids_;
  Memory<float> hidden_;     // [embedding]
  Memory<float> normed_;     // [embedding]
  Memory<float> qkv_;        // [(H + 2G) d]
  Memory<float> mixed_;      // [H d], what attention gives
  Memory<float> gated_;      // [inner_size()], gate and up
  Memory<float> lse_parts_;  // [2][H][token] of the current layer
  Memory<float> lse_;        // [layer][H][token]
  typename Device::HostMemory lse_on_host_;
  Memory<float> partial_;  // attention of few rows, keys shared out
  Memory<float> logits_;   // [token of kLogitsTokens][vocabulary]
};

}  // namespace kvreplay::cuda
