#include "capture/gguf_config.hpp"

#include <cmath>
#include <limits>

#include "capture/architectures.hpp"
#include "traces/errors.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

/// Products of a few counts stay far from overflow in 64 bits; larger counts are damage.
constexpr std::uint32_t kLargestCount = 1U << 24;
/// No architecture has fewer: two norms, Q, K, V, the attention's output, gate, up and down.
constexpr std::uint32_t kTensorsPerLayer = 9;

class Metadata {
 public:
  explicit Metadata(const GgufFile& file)
      : file_(file), prefix_(file.get_string("general.architecture") + ".") {}

  [[noreturn]] void refuse(const std::string& reason) const {
    throw InputError(file_.path().string() + ": " + reason);
  }

  std::string key(const std::string& name) const { return prefix_ + name; }

  std::uint32_t count(const std::string& name, std::uint64_t value) const {
    if (value < 1 || value > kLargestCount)
      refuse(key(name) + " is " + std::to_string(value) + ", outside 1.." +
             std::to_string(kLargestCount));
    return static_cast<std::uint32_t>(value);
  }
  std::uint32_t count(const std::string& name) const {
    return count(name, file_.get_unsigned(key(name)));
  }
  std::uint32_t count_or(const std::string& name, std::uint64_t otherwise) const {
    return count(name, file_.find_unsigned(key(name)).value_or(otherwise));
  }

  double positive(const std::string& name, double value) const {
    if (!(value > 0) || !std::isfinite(value))
      refuse(key(name) + " is " + std::to_string(value) + " where a positive number is needed");
    return value;
  }

  /// Settings that change what is computed and that this runtime does not follow.
  void refuse_unless_neutral(const std::string& name, double neutral) const {
    const auto value = file_.find_real(key(name));
    if (value && *value != neutral)
      refuse(key(name) + " is " + std::to_string(*value) + ", which is not supported");
  }
  void refuse_unless_zero(const std::string& name) const {
    const auto value = file_.find_unsigned(key(name));
    if (value && *value != 0)
      refuse(key(name) + " is " + std::to_string(*value) + ", which is not supported");
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

RopeConfig read_rope(const GgufFile& file, const Metadata& metadata, std::uint32_t head_size) {
  RopeConfig rope;
  const std::string key = metadata.key("rope.dimension_count");
  const auto asked = file.find_unsigned(key);
  const std::uint64_t dimensions = asked.value_or(head_size);
  if (dimensions == 0 || dimensions > head_size || dimensions % 2 != 0)
    metadata.refuse(
        (asked ? key + " is " + std::to_string(*asked)
               : key + ", which is not given, is the head size " + std::to_string(head_size)) +
        "; it must be even, above 0 and at most the head size" +
        (asked ? " " + std::to_string(head_size) : ""));
  rope.dimensions = static_cast<std::uint32_t>(dimensions);
  rope.theta = metadata.positive("rope.freq_base",
                                 file.find_real(metadata.key("rope.freq_base")).value_or(10000));

  // A file that does not say means linear, as llama.cpp reads it.
  const auto type = file.find_string(metadata.key("rope.scaling.type")).value_or("linear");
  if (type == "linear") {
    for (const char* name : {"rope.scaling.factor", "rope.scale_linear"}) {  // the second of old
      const auto factor = file.find_real(metadata.key(name));
      if (!factor) continue;
      rope.scale = 1 / metadata.positive(name, *factor);
      break;
    }
  } else if (type != "none") {
    metadata.refuse(metadata.key("rope.scaling.type") + " is " + in_quotes(type) +
                    "; supported are \"none\" and \"linear\"");
  }

  if (file.find_tensor("rope_freqs.weight") != nullptr) {
    const std::uint64_t dims[] = {rope.dimensions / 2};
    const StoredTensor& tensor = file.tensor("rope_freqs.weight", dims);
    if (tensor.type != GgmlType::f32) metadata.refuse("tensor rope_freqs.weight is not F32");
    std::vector<float> divisors(dims[0]);
    dequantise(tensor, 0, divisors);
    for (const float divisor : divisors)
      if (!(divisor > 0) || !std::isfinite(divisor))
        metadata.refuse("tensor rope_freqs.weight holds " + std::to_string(divisor) +
                        " where a positive number is needed");
    rope.divisors.assign(divisors.begin(), divisors.end());
  }
  return rope;
}

/// Layers with windows: those that the pattern in the file names, or all but each full_every-th.
void read_windows(const GgufFile& file, const Metadata& metadata, const Architecture& architecture,
                  ModelConfig& config) {
  const std::uint64_t window =
      file.find_unsigned(metadata.key("attention.sliding_window")).value_or(0);
  if (window == 0) return;
  if (window > TraceInfo::kMostTokens)
    metadata.refuse(metadata.key("attention.sliding_window") + " is " + std::to_string(window) +
                    ", more tokens than a trace holds");
  const std::string key = metadata.key("attention.sliding_window_pattern");
  std::uint64_t full_every = architecture.full_every;
  const auto pattern = file.find_integers(key).value_or(std::vector<std::int64_t>{});
  if (pattern.size() == 1 && pattern[0] > 0)
    full_every = static_cast<std::uint64_t>(pattern[0]);
  else if (!pattern.empty() && pattern.size() != config.layers)
    metadata.refuse(key + " has " + std::to_string(pattern.size()) + " entries for " +
                    std::to_string(config.layers) + " layers");
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    const bool full = pattern.size() == config.layers && config.layers > 1
                          ? pattern[layer] == 0
                          : full_every > 0 && (layer + 1) % full_every == 0;
    if (full) continue;
    config.attention[layer].type = "window";
    config.attention[layer].window = static_cast<std::uint32_t>(window);
  }
  if (architecture.window_theta == 0) return;
  config.window_rope = config.rope;
  config.window_rope->scale = 1;
  config.window_rope->theta = metadata.positive(
      "rope.freq_base_swa",
      file.find_real(metadata.key("rope.freq_base_swa")).value_or(architecture.window_theta));
}

}  // namespace

ModelConfig read_gguf_config(const GgufFile& file) {
  const Architecture& architecture = architecture_of_gguf(
      file.path().string() + ": the architecture", file.get_string("general.architecture"));
  const Metadata metadata(file);
  ModelConfig config;
  config.architecture = architecture.name;
  config.structure = architecture.structure;
  config.name = file.find_string("general.name").value_or(file.path().stem().string());

  config.layers = metadata.count("block_count");
  // Before anything is sized by it.
  if (const auto tensors = file.tensors().size(); tensors / kTensorsPerLayer < config.layers)
    metadata.refuse(metadata.key("block_count") + " is " + std::to_string(config.layers) +
                    ", but the file's " + std::to_string(tensors) +
                    " tensors do not make so many layers of " + std::to_string(kTensorsPerLayer) +
                    "; the file is damaged or only part of a model");
  config.embedding = metadata.count("embedding_length");
  config.feed_forward = metadata.count("feed_forward_length");
  config.context = metadata.count("context_length");
  config.heads = metadata.count("attention.head_count");
  config.kv_heads = metadata.count_or("attention.head_count_kv", config.heads);
  if (config.heads % config.kv_heads != 0)
    metadata.refuse(metadata.key("attention.head_count") + " is " + std::to_string(config.heads) +
                    ", not a multiple of head_count_kv " + std::to_string(config.kv_heads));
  if (config.embedding % config.heads != 0 &&
      !file.find_unsigned(metadata.key("attention.key_length")))
    metadata.refuse(metadata.key("embedding_length") + " is " + std::to_string(config.embedding) +
                    ", not a multiple of head_count " + std::to_string(config.heads));
  config.head_size = metadata.count_or("attention.key_length", config.embedding / config.heads);
  if (const auto value = metadata.count_or("attention.value_length", config.head_size);
      value != config.head_size)
    metadata.refuse(metadata.key("attention.value_length") + " is " + std::to_string(value) +
                    " but key_length is " + std::to_string(config.head_size) +
                    "; they must be equal");
  const std::uint64_t of_qkv =
      std::uint64_t{config.head_size} * (config.heads + 2 * config.kv_heads);
  if (of_qkv > kLargestCount)
    metadata.refuse(metadata.key("attention.head_count") + " times the head size is too large (" +
                    std::to_string(of_qkv) + " values of Q, K and V)");
  const std::string epsilon = config.structure.norm == NormKind::rms
                                  ? "attention.layer_norm_rms_epsilon"
                                  : "attention.layer_norm_epsilon";
  config.epsilon = metadata.positive(epsilon, file.get_real(metadata.key(epsilon)));

  LayerAttention attention;
  const auto scale = file.find_real(metadata.key("attention.scale")).value_or(0);  // 0: the usual
  const double width = architecture.layers_scaled_by_width == config.layers
                           ? 1.0 * config.embedding / config.heads
                           : config.head_size;
  attention.scale = scale == 0 ? 1 / std::sqrt(width) : metadata.positive("attention.scale", scale);
  const auto softcap = [&](const std::string& name, double otherwise) {
    if (otherwise == 0) metadata.refuse_unless_neutral(name, 0);
    const double cap = file.find_real(metadata.key(name)).value_or(otherwise);
    return cap == 0 ? 0 : metadata.positive(name, cap);
  };
  attention.softcap = softcap("attn_logit_softcapping", architecture.softcap);
  config.final_softcap = softcap("final_logit_softcapping", architecture.final_softcap);
  config.attention.assign(config.layers, attention);
  if (config.structure.positions == Positions::rope) {
    config.rope = read_rope(file, metadata, config.head_size);
    config.rope.pairs = architecture.gguf_pairs;
  }
  read_windows(file, metadata, architecture, config);

  metadata.refuse_unless_zero("expert_count");
  for (const char* name : {"attention.max_alibi_bias", "attention.clamp_kqv"})
    metadata.refuse_unless_neutral(name, 0);
  for (const char* name : {"logit_scale", "embedding_scale", "residual_scale"})
    metadata.refuse_unless_neutral(name, 1);
  if (!file.find_bool(metadata.key("attention.causal")).value_or(true))
    metadata.refuse(metadata.key("attention.causal") +
                    " is false; only causal attention is supported");
  if (const auto parallel = file.find_bool(metadata.key("use_parallel_residual"))) {
    if (*parallel && architecture.structure.norm == NormKind::rms)
      metadata.refuse(metadata.key("use_parallel_residual") + " is true, which is not supported");
    config.structure.parallel_residual = *parallel;
  }

  const StoredTensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) metadata.refuse("tensor token_embd.weight is missing");
  if (embedding->dims.size() != 2 || embedding->dims[0] != config.embedding)
    metadata.refuse("tensor token_embd.weight is not [vocabulary, " +
                    std::to_string(config.embedding) + "]");
  config.vocabulary = metadata.count("vocab_size", embedding->dims[1]);
  config.tied = file.find_tensor("output.weight") == nullptr;
  return config;
}

}  // namespace kvreplay
