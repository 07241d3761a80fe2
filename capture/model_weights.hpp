// A model's weights as fp32, dequantised once.
#pragma once

#include <span>
#include <vector>

#include "capture/float_buffer.hpp"
#include "capture/model_config.hpp"
#include "capture/products.hpp"
#include "capture/stored_tensor.hpp"

namespace kvreplay {

struct NormTensors {
  const float* gain = nullptr;
  const float* bias = nullptr;  ///< of NormKind::layer only
};

/// A weight and the bias [out] that is added to its product; null where the architecture has none.
struct LinearTensors {
  Matrix weight;
  const float* bias = nullptr;
};

struct LayerTensors {
  NormTensors attention_norm;         ///< [embedding]
  LinearTensors qkv;                  ///< Q, K and V rows, one below the other
  const float* query_norm = nullptr;  ///< [head_size], of Structure::qk_norm only, as key_norm
  const float* key_norm = nullptr;
  LinearTensors attention_out;
  NormTensors post_attention_norm;  ///< [embedding], of Structure::post_norms only
  NormTensors feed_forward_norm;    ///< [embedding]
  LinearTensors up;                 ///< gate rows where it is gated, then up rows
  LinearTensors down;
  NormTensors post_feed_forward_norm;  ///< as post_attention_norm
};

struct ModelTensors {
  std::vector<LayerTensors> layers;
  Matrix embedding;         ///< [vocabulary, token_size()]
  Matrix project_in;        ///< [embedding, token_size()], where they differ, as project_out
  Matrix project_out;       ///< [token_size(), embedding]
  Matrix positions;         ///< [context, embedding], of Positions::learned only
  Matrix head;              ///< the embedding where tied
  NormTensors output_norm;  ///< [embedding], of Structure::output_norm only
};

class ModelWeights : public ModelTensors {
 public:
  /// Dequantises on the threads of the current TBB arena. Throws InputError naming the tensor that
  /// is missing, has other dims than `config` says, or is none of the architecture's.
  ModelWeights(const TensorSource& source, const ModelConfig& config);

  /// Room that all tensors take as fp32, in values; each is used exactly once.
  static std::uint64_t values(const TensorSource& source);

  /// All of them, one behind the other.
  std::span<const float> all() const { return buffer_.span(); }
  /// Where the tensors lie in a copy of all() that begins at `start`.
  ModelTensors copied_to(const float* start) const;

 private:
  FloatBuffer buffer_;
};

}  // namespace kvreplay
