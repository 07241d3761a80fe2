// A Llama model's weights as fp32, dequantised once.
#pragma once

#include <span>
#include <vector>

#include "capture/float_buffer.hpp"
#include "capture/gguf.hpp"
#include "capture/llama_config.hpp"
#include "capture/products.hpp"

namespace kvreplay {

struct LlamaLayer {
  const float* attention_norm = nullptr;  ///< [embedding]
  Matrix qkv;                             ///< Q, K and V rows, one below the other
  Matrix attention_out;
  const float* feed_forward_norm = nullptr;  ///< [embedding]
  Matrix gate_up;                            ///< gate rows, then up rows
  Matrix down;
};

struct LlamaTensors {
  std::vector<LlamaLayer> layers;
  Matrix embedding;                    ///< [vocabulary, embedding]
  Matrix head;                         ///< the same where tied
  const float* output_norm = nullptr;  ///< [embedding]
};

class LlamaWeights : public LlamaTensors {
 public:
  /// Dequantises on the threads of the current TBB arena. Throws InputError naming the tensor that
  /// is missing, has other dims than `config` says, or is none of the architecture's.
  LlamaWeights(const GgufFile& file, const LlamaConfig& config);

  /// Room that all tensors of the file take as fp32, in values; each is used exactly once.
  static std::uint64_t values(const GgufFile& file);

  /// All of them, one behind the other.
  std::span<const float> all() const { return buffer_.span(); }
  /// Where the tensors lie in a copy of all() that begins at `start`.
  LlamaTensors copied_to(const float* start) const;

 private:
  FloatBuffer buffer_;
};

}  // namespace kvreplay
