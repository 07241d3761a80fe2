// Shape and constants of a model, as its files say and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capture/activation.hpp"
#include "traces/trace.hpp"

namespace kvreplay {

enum class RopePairs : std::uint8_t {
  adjacent,  ///< (2i, 2i+1), called "normal"
  halves     ///< (i, i + dimensions/2), called "neox"
};

/// Rotary positions: pair i turns by position * scale * theta^(-2i/dimensions) / divisors[i];
/// values past `dimensions` stay.
struct RopeConfig {
  std::uint32_t dimensions = 0;  ///< 0: no rotation
  RopePairs pairs = RopePairs::adjacent;
  double theta = 10000;
  double scale = 1;              ///< 1 / factor of linear scaling
  std::vector<double> divisors;  ///< one per pair, or empty: all 1
  double magnitude = 1;          ///< factor on the rotated values, of YaRN
};

enum class NormKind : std::uint8_t {
  rms,   ///< x / sqrt(mean(x^2) + epsilon) * gain
  layer  ///< (x - mean) / sqrt(variance + epsilon) * gain + bias
};
enum class Positions : std::uint8_t { rope, learned };

/// What a layer computes, beside its sizes.
struct Structure {
  NormKind norm = NormKind::rms;
  Positions positions = Positions::rope;
  Activation activation = Activation::silu;
  bool gated = true;               ///< activation(gate x) * up x, else activation(up x)
  bool parallel_residual = false;  ///< the feed-forward part sees the layer's input
  bool fused_qkv = false;          ///< Q, K and V are one tensor
  bool qkv_bias = false;
  bool output_bias = false;  ///< of the attention's output
  bool feed_forward_bias = false;
  bool qk_norm = false;           ///< each head of Q and K is normalised before it is rotated
  bool post_norms = false;        ///< what attention and feed-forward give is normalised too
  bool norms_behind = false;      ///< norms come behind the sums: hidden = norm(hidden + part)
  bool output_norm = true;        ///< the last layer's output is normalised
  bool scaled_embedding = false;  ///< by sqrt(embedding)
};

struct ModelConfig {
  std::string name;
  std::string architecture;
  Structure structure;
  std::uint32_t layers = 0;
  std::uint32_t embedding = 0;
  std::uint32_t projected_from = 0;  ///< size of tokens' vectors, if they are projected; 0: not
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_size = 0;
  std::uint32_t feed_forward = 0;
  std::uint32_t vocabulary = 0;
  std::uint32_t context = 0;  ///< tokens the model was trained for
  bool tied = false;          ///< the head is the embedding
  double epsilon = 0;         ///< of all norms
  double final_softcap = 0;   ///< logits become c tanh(x/c); 0: they stay
  RopeConfig rope;
  std::optional<RopeConfig> window_rope;  ///< of layers with a window, where it is another
  std::vector<LayerAttention> attention;  ///< of each layer

  /// Values of a row of the embedding, and of the head.
  std::uint32_t token_size() const { return projected_from > 0 ? projected_from : embedding; }
  std::uint32_t group_size() const { return heads / kv_heads; }
  /// Values of Q, K and V of one token.
  std::uint32_t qkv_size() const { return (heads + 2 * kv_heads) * head_size; }
  /// Values that the feed-forward part computes of one token, gates included.
  std::uint32_t inner_size() const { return structure.gated ? 2 * feed_forward : feed_forward; }
  bool turns_by_window_rope(std::uint32_t layer) const {
    return window_rope && attention[layer].window > 0;
  }
};

}  // namespace kvreplay
