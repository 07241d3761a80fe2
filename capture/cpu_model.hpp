// A model on the CPU in fp32: Eigen for products, TBB for threads.
#pragma once

#include <tbb/enumerable_thread_specific.h>
#include <tbb/task_arena.h>

#include "capture/float_buffer.hpp"
#include "capture/model.hpp"
#include "capture/model_weights.hpp"
#include "capture/rope.hpp"

namespace kvreplay {

struct CpuOptions {
  std::uint32_t threads = 1;       ///< more than TBB allows (tbb::global_control) are not used
  std::uint32_t chunk = 512;       ///< tokens that go through the layers together
  std::uint32_t query_block = 64;  ///< queries whose scores exist at once, at most 64
};

class CpuModel final : public Model {
 public:
  /// Loads the weights. Throws as ModelWeights does.
  CpuModel(const TensorSource& source, const ModelConfig& config, const CpuOptions& options);

  const ModelConfig& config() const override { return config_; }
  void start(std::uint32_t capacity, AttentionSink* sink) override;
  std::uint32_t position() const override { return position_; }
  std::uint32_t chunk() const override { return options_.chunk; }
  void forward(std::span<const std::uint32_t> ids, const RunControl& control) override;
  void logits(std::uint32_t first, std::uint32_t count, std::span<float> out) override;

  /// Bytes that a run of `capacity` tokens takes beside the weights.
  static std::uint64_t working_bytes(const ModelConfig& config, const CpuOptions& options,
                                     std::uint32_t capacity);

 private:
  /// Sizes, in floats, of what a run allocates.
  struct Sizes {
    std::uint64_t cache, hidden, normed, qkv, mixed, gated, scores, rope, window_rope;
  };
  static Sizes sizes(const ModelConfig& config, const CpuOptions& options, std::uint32_t capacity);

  void embed(std::span<const std::uint32_t> ids);
  void run_layer(std::uint32_t index, std::uint32_t tokens);
  void feed_forward(const LayerTensors& layer, Activations in, std::uint32_t tokens);
  /// hidden += what the layer's part gives of `x`, normalised first where the layer has `norm`.
  void add_to_hidden(const LinearTensors& linear, Activations x, const NormTensors& norm,
                     std::uint32_t tokens);
  void place_queries_and_keys(std::uint32_t layer, std::uint32_t tokens);
  void attend_all(std::uint32_t layer, std::uint32_t tokens);
  /// Tokens [embedding] from `from` to `to`; they may be the same.
  void normalise(const float* from, std::uint32_t tokens, const NormTensors& norm, float* to);
  float* keys(std::uint32_t layer, std::uint32_t kv_head) const;
  float* values(std::uint32_t layer, std::uint32_t kv_head) const;

  std::string path_;  // for messages
  ModelConfig config_;
  CpuOptions options_;
  tbb::task_arena arena_;
  ModelWeights weights_;
  RopeTable rope_;
  RopeTable window_rope_;  // of layers with a window, where it is another
  AttentionSink* sink_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t position_ = 0;
  std::uint32_t last_tokens_ = 0;  // of the last forward()

  // One row a token of the chunk.
  FloatBuffer hidden_;                                   // [embedding]
  FloatBuffer normed_;                                   // [embedding]
  FloatBuffer qkv_;                                      // [(H + 2G) d]
  FloatBuffer mixed_;                                    // [H d], what attention gives
  FloatBuffer gated_;                                    // [inner_size()], gate and up
  FloatBuffer cache_;                                    // [layer][kv head][K, V][capacity][d]
  tbb::enumerable_thread_specific<FloatBuffer> scores_;  // [query_block][padded capacity]
};

}  // namespace kvreplay
