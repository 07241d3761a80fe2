// The model families that capture runs: for each what its layers compute and what its files call
// their parts. One more is one more entry of the table.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model_config.hpp"
#include "capture/stored_tensor.hpp"

namespace kvreplay {

/// A tensor's name in GGUF and in safetensors, without the ending .weight or .bias. Those of a
/// layer come behind "blk.N." and behind the family's own prefix and number.
struct TensorName {
  std::string_view gguf;
  std::string_view safetensors;
  Layout layout = Layout::as_is;  ///< in safetensors
};

struct TensorNames {
  std::string_view prefix;  ///< of all names in safetensors; some files leave it out
  std::string_view layers;  ///< between the prefix and the layer's number
  std::vector<TensorName> of_model;
  std::vector<TensorName> of_layer;
  /// Endings of what files hold beside weights, such as masks.
  std::vector<std::string_view> no_weights = {};
};

struct Architecture {
  std::string_view name;        ///< general.architecture of GGUF
  std::string_view model_type;  ///< of config.json
  Structure structure;
  const TensorNames* names = nullptr;
  bool tied = false;                         ///< where config.json does not say
  RopePairs gguf_pairs = RopePairs::halves;  ///< as converters leave them in GGUF
  double rotary_share = 1;                   ///< of a head's values, where config.json does not say
  bool window_unasked = true;                ///< a window holds without use_sliding_window
  std::uint32_t full_every = 0;              ///< of so many layers with windows the last has none
  double window_theta = 0;                   ///< of rope in layers with windows; 0: as in others
  double softcap = 0;                        ///< of scores, where config.json does not say
  double final_softcap = 0;                  ///< of logits, likewise
  std::uint32_t layers_scaled_by_width = 0;  ///< a model of so many scales scores by its width
  bool in_gguf = true;
};

std::span<const Architecture> architectures();
/// Throws InputError where `name` is none of them; the message begins with `where` and lists them.
const Architecture& architecture_of_gguf(const std::string& where, std::string_view name);
const Architecture& architecture_of_model_type(const std::string& where, std::string_view type);

}  // namespace kvreplay
