#include "capture/llama_config.hpp"

#include <cmath>
#include <limits>

#include "traces/errors.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

/// Products of a few counts stay far from overflow in 64 bits; larger counts are damage.
constexpr std::uint32_t kLargestCount = 1U << 24;
/// Two norms, Q, K, V, the attention's output, gate, up and down.
constexpr std::uint32_t kTensorsPerLayer = 9;

class Metadata {
 public:
  explicit Metadata(const GgufFile& file) : file_(file) {}

  [[noreturn]] void refuse(const std::string& reason) const {
    throw InputError(file_.path().string() + ": " + reason);
  }

  std::string key(const std::string& name) const { return "llama." + name; }

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
};

RopeConfig read_rope(const GgufFile& file, const Metadata& metadata, std::uint32_t head_size) {
  RopeConfig rope;
  const auto asked = file.find_unsigned("llama.rope.dimension_count");
  const std::uint64_t dimensions = asked.value_or(head_size);
  if (dimensions == 0 || dimensions > head_size || dimensions % 2 != 0)
    metadata.refuse((asked ? "llama.rope.dimension_count is " + std::to_string(*asked)
                           : "llama.rope.dimension_count, which is not given, is the head size " +
                                 std::to_string(head_size)) +
                    "; it must be even, above 0 and at most the head size" +
                    (asked ? " " + std::to_string(head_size) : ""));
  rope.dimensions = static_cast<std::uint32_t>(dimensions);
  rope.theta =
      metadata.positive("rope.freq_base", file.find_real("llama.rope.freq_base").value_or(10000));

  // A file that does not say means linear, as llama.cpp reads it.
  const auto type = file.find_string("llama.rope.scaling.type").value_or("linear");
  if (type == "linear") {
    for (const char* name : {"rope.scaling.factor", "rope.scale_linear"}) {  // the second of old
      const auto factor = file.find_real(metadata.key(name));
      if (!factor) continue;
      rope.scale = 1 / metadata.positive(name, *factor);
      break;
    }
  } else if (type != "none") {
    metadata.refuse("llama.rope.scaling.type is " + in_quotes(type) +
                    "; supported are \"none\" and \"linear\"");
  }

  if (file.find_tensor("rope_freqs.weight") != nullptr) {
    const std::uint64_t dims[] = {rope.dimensions / 2};
    const GgufTensor& tensor = file.tensor("rope_freqs.weight", dims);
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

}  // namespace

LlamaConfig read_llama_config(const GgufFile& file) {
  const Metadata metadata(file);
  LlamaConfig config;
  config.architecture = file.get_string("general.architecture");
  if (config.architecture != "llama")
    metadata.refuse("the architecture is " + in_quotes(config.architecture) +
                    "; capture supports \"llama\" only");
  config.name = file.find_string("general.name").value_or(file.path().stem().string());

  config.layers = metadata.count("block_count");
  // Before anything is sized by it.
  if (const auto tensors = file.tensors().size(); tensors / kTensorsPerLayer < config.layers)
    metadata.refuse("llama.block_count is " + std::to_string(config.layers) + ", but the file's " +
                    std::to_string(tensors) + " tensors do not make so many layers of " +
                    std::to_string(kTensorsPerLayer) +
                    "; the file is damaged or only part of a model");
  config.embedding = metadata.count("embedding_length");
  config.feed_forward = metadata.count("feed_forward_length");
  config.context = metadata.count("context_length");
  config.heads = metadata.count("attention.head_count");
  config.kv_heads = metadata.count_or("attention.head_count_kv", config.heads);
  if (config.heads % config.kv_heads != 0)
    metadata.refuse("llama.attention.head_count is " + std::to_string(config.heads) +
                    ", not a multiple of head_count_kv " + std::to_string(config.kv_heads));
  if (config.embedding % config.heads != 0 && !file.find_unsigned("llama.attention.key_length"))
    metadata.refuse("llama.embedding_length is " + std::to_string(config.embedding) +
                    ", not a multiple of head_count " + std::to_string(config.heads));
  config.head_size = metadata.count_or("attention.key_length", config.embedding / config.heads);
  if (const auto value = metadata.count_or("attention.value_length", config.head_size);
      value != config.head_size)
    metadata.refuse("llama.attention.value_length is " + std::to_string(value) +
                    " but key_length is " + std::to_string(config.head_size) +
                    "; they must be equal");
  const std::uint64_t width =
      std::uint64_t{config.head_size} * (config.heads + 2 * config.kv_heads);
  if (width > kLargestCount)
    metadata.refuse("llama.attention.head_count times the head size is too large (" +
                    std::to_string(width) + " values of Q, K and V)");
  config.rms_epsilon = metadata.positive("attention.layer_norm_rms_epsilon",
                                         file.get_real("llama.attention.layer_norm_rms_epsilon"));
  const auto scale = file.find_real("llama.attention.scale").value_or(0);  // 0: the usual one
  config.attention_scale = scale == 0 ? 1 / std::sqrt(static_cast<double>(config.head_size))
                                      : metadata.positive("attention.scale", scale);
  config.rope = read_rope(file, metadata, config.head_size);

  for (const char* name : {"expert_count", "attention.sliding_window"})
    metadata.refuse_unless_zero(name);
  for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping",
                           "attention.max_alibi_bias", "attention.clamp_kqv"})
    metadata.refuse_unless_neutral(name, 0);
  for (const char* name : {"logit_scale", "embedding_scale", "residual_scale"})
    metadata.refuse_unless_neutral(name, 1);
  if (!file.find_bool("llama.attention.causal").value_or(true))
    metadata.refuse("llama.attention.causal is false; only causal attention is supported");
  if (file.find_bool("llama.use_parallel_residual").value_or(false))
    metadata.refuse("llama.use_parallel_residual is true, which is not supported");

  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) metadata.refuse("tensor token_embd.weight is missing");
  if (embedding->dims.size() != 2 || embedding->dims[0] != config.embedding)
    metadata.refuse("tensor token_embd.weight is not [vocabulary, " +
                    std::to_string(config.embedding) + "]");
  config.vocabulary = metadata.count("vocab_size", embedding->dims[1]);
  return config;
}

}  // namespace kvreplay
