#include "capture/hugging_face_config.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "capture/rope_scaling.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

void read_sizes(const JsonFacts& facts, ModelConfig& config) {
  config.layers = facts.count({"num_hidden_layers", "n_layer"});
  if (config.layers > TraceInfo::kMostLayersOrHeads)
    facts.refuse(facts.key("num_hidden_layers") + " is " + std::to_string(config.layers) +
                 ", more than a trace holds");
  config.embedding = facts.count({"hidden_size", "n_embd"});
  config.heads = facts.count({"num_attention_heads", "n_head"});
  config.kv_heads = facts.find_count({"num_key_value_heads"}).value_or(config.heads);
  if (config.heads % config.kv_heads != 0)
    facts.refuse("num_attention_heads is " + std::to_string(config.heads) +
                 ", not a multiple of num_key_value_heads " + std::to_string(config.kv_heads));
  const auto head_size = facts.find_count({"head_dim"});
  if (!head_size && config.embedding % config.heads != 0)
    facts.refuse("hidden_size is " + std::to_string(config.embedding) +
                 ", not a multiple of num_attention_heads " + std::to_string(config.heads));
  config.head_size = head_size.value_or(config.embedding / config.heads);
  constexpr std::uint64_t kMost = 1U << 24;
  if (std::uint64_t{config.head_size} * (config.heads + 2 * config.kv_heads) > kMost)
    facts.refuse("num_attention_heads times the head size is too large");
  config.feed_forward =
      facts.find_count({"intermediate_size", "ffn_dim", "n_inner"}).value_or(4 * config.embedding);
  config.vocabulary = facts.count({"vocab_size"});
  const auto token_size = facts.find_count({"word_embed_proj_dim"});
  const std::uint32_t most = std::min(config.embedding, config.qkv_size());
  if (token_size.value_or(0) > most)
    facts.refuse("word_embed_proj_dim is " + std::to_string(*token_size) +
                 " where the layers hold " + std::to_string(most) +
                 " values of a token; larger ones are not supported");
  if (token_size && *token_size < config.embedding) config.projected_from = *token_size;
  config.context = facts.count({"max_position_embeddings", "n_positions"});
}

void read_structure(const JsonFacts& facts, Structure& structure) {
  if (const auto name =
          facts.find_text({"hidden_activation", "hidden_act", "activation_function"})) {
    static constexpr std::pair<const char*, Activation> kNames[] = {
        {"silu", Activation::silu},
        {"swish", Activation::silu},
        {"relu", Activation::relu},
        {"gelu", Activation::gelu},
        {"gelu_new", Activation::gelu_tanh},
        {"gelu_fast", Activation::gelu_tanh},
        {"gelu_pytorch_tanh", Activation::gelu_tanh}};
    const auto* found = std::find_if(std::begin(kNames), std::end(kNames),
                                     [&](const auto& known) { return known.first == *name; });
    if (found == std::end(kNames))
      facts.refuse("the activation is " + in_quotes(*name) +
                   "; supported are silu, relu, gelu, gelu_new and gelu_pytorch_tanh");
    structure.activation = found->second;
  }
  if (const auto biased = facts.find_bool({"attention_bias"}))
    structure.qkv_bias = structure.output_bias = *biased;
  if (const auto biased = facts.find_bool({"enable_bias"}))
    structure.qkv_bias = structure.output_bias = structure.feed_forward_bias = *biased;
  structure.norms_behind = !facts.find_bool({"do_layer_norm_before"}).value_or(true);
  structure.output_norm =
      !structure.norms_behind && !facts.find_bool({"_remove_final_layer_norm"}).value_or(false);
  structure.parallel_residual =
      facts.find_bool({"use_parallel_residual"}).value_or(structure.parallel_residual);
}

/// Settings that change what is computed and that this runtime does not follow.
void refuse_unsupported(const JsonFacts& facts) {
  for (const auto& [name, neutral] : {std::pair("mlp_bias", false),
                                      {"add_cross_attention", false},
                                      {"layer_norm_elementwise_affine", true},
                                      {"use_bidirectional_attention", false}})
    if (facts.find_bool({name}).value_or(neutral) != neutral)
      facts.refuse(facts.key(name) + " is " + (neutral ? "false" : "true") +
                   ", which is not supported");
  if (const auto quantised = facts.find_facts({"quantization_config"}))
    facts.refuse("the weights are quantised (" +
                 in_quotes(quantised->find_text({"quant_method"}).value_or("quantization_config")) +
                 "), which is not supported; take the model as BF16, F16 or F32, or as GGUF");
}

/// The facts of rope: of their own kind of layers where there are several, else of all.
RopeConfig read_rope(const JsonFacts& facts, const Architecture& architecture,
                     const ModelConfig& config, const char* layers) {
  RopeConfig rope;
  rope.pairs = RopePairs::halves;
  auto parameters = facts.find_facts({"rope_parameters", "rope_scaling"});
  if (parameters)
    if (auto of_layers = parameters->find_facts({layers})) parameters = of_layers;
  const auto number = [&](JsonFacts::Names names) {
    auto value = facts.find_positive(names);
    return value || !parameters ? value : parameters->find_positive(names);
  };
  const double share =
      number({"rotary_pct", "partial_rotary_factor"}).value_or(architecture.rotary_share);
  rope.dimensions = static_cast<std::uint32_t>(config.head_size * std::min(share, 1.0));
  if (rope.dimensions == 0 || rope.dimensions % 2 != 0)
    facts.refuse("rotary positions would turn " + std::to_string(rope.dimensions) + " of the " +
                 std::to_string(config.head_size) +
                 " values of a head; it must be an even number above 0");
  const auto theta = number({"rope_theta", "rotary_emb_base"});
  if (!theta && architecture.window_theta > 0)
    facts.refuse("has no rope_theta, which this kind of model needs");
  rope.theta = theta.value_or(10000);
  if (parameters) scale_rope(*parameters, config.context, rope);
  return rope;
}

/// Which layers have the window: those that layer_types names, or those from max_window_layers on,
/// or all but each full_every-th.
std::vector<bool> layers_with_window(const JsonFacts& facts, const Architecture& architecture,
                                     std::uint32_t layers) {
  std::vector<bool> with_window(layers, true);
  if (const Json* types = facts.find({"layer_types"})) {
    if (!types->is_array() || types->size() != layers)
      facts.refuse("layer_types is no list of " + std::to_string(layers) + " kinds of layers");
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      const Json& entry = (*types)[layer];
      const std::string type = entry.is_string() ? entry.get<std::string>() : "";
      if (type != "sliding_attention" && type != "full_attention")
        facts.refuse("layer_types[" + std::to_string(layer) +
                     "] is neither \"full_attention\" nor \"sliding_attention\"");
      with_window[layer] = type == "sliding_attention";
    }
    return with_window;
  }
  const std::uint32_t full_every =
      facts.find_count({"sliding_window_pattern", "_sliding_window_pattern"})
          .value_or(architecture.full_every);
  const Json* most = facts.find({"max_window_layers"});
  const bool from_the_first = most == nullptr || (most->is_number() && most->get<double>() == 0);
  const std::uint32_t first = from_the_first ? 0 : facts.count({"max_window_layers"});
  for (std::uint32_t layer = 0; layer < layers; ++layer)
    with_window[layer] = layer >= first && (full_every == 0 || (layer + 1) % full_every != 0);
  return with_window;
}

void read_attention(const JsonFacts& facts, const Architecture& architecture, ModelConfig& config) {
  LayerAttention attention;
  attention.scale = 1 / std::sqrt(facts.find_positive({"query_pre_attn_scalar"})
                                      .value_or(static_cast<double>(config.head_size)));
  if (!facts.find_bool({"scale_attn_weights"}).value_or(true)) attention.scale = 1;
  const auto softcap = [&](const char* name, double otherwise) {
    const Json* cap = facts.find({name});
    return cap == nullptr ? otherwise : facts.positive({name});
  };
  if (architecture.softcap > 0) {
    attention.softcap = softcap("attn_logit_softcapping", 0);
    config.final_softcap = softcap("final_logit_softcapping", 0);
  }
  config.attention.assign(config.layers, attention);
  if (facts.find_bool({"scale_attn_by_inverse_layer_idx"}).value_or(false))
    for (std::uint32_t layer = 0; layer < config.layers; ++layer)
      config.attention[layer].scale /= layer + 1;

  const auto window = facts.find_count({"sliding_window"});
  if (!window || !facts.find_bool({"use_sliding_window"}).value_or(architecture.window_unasked))
    return;
  const auto with_window = layers_with_window(facts, architecture, config.layers);
  for (std::uint32_t layer = 0; layer < config.layers; ++layer)
    if (with_window[layer]) {
      config.attention[layer].type = "window";
      config.attention[layer].window = *window;
    }
}

}  // namespace

ModelConfig read_hugging_face_config(const JsonFacts& facts, const Architecture& architecture) {
  ModelConfig config;
  config.architecture = architecture.name;
  config.structure = architecture.structure;
  read_sizes(facts, config);
  read_structure(facts, config.structure);
  refuse_unsupported(facts);
  config.tied = facts.find_bool({"tie_word_embeddings"}).value_or(architecture.tied);
  config.epsilon =
      facts.find_positive({"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon"}).value_or(1e-5);
  read_attention(facts, architecture, config);
  if (config.structure.positions == Positions::learned) return config;
  config.rope = read_rope(facts, architecture, config, "full_attention");
  if (architecture.window_theta == 0) return config;
  config.window_rope = config.rope;
  // They are turned as the first models were, whatever the others are scaled by.
  config.window_rope->scale = config.window_rope->magnitude = 1;
  config.window_rope->divisors.clear();
  config.window_rope->theta =
      facts.find_positive({"rope_local_base_freq"}).value_or(architecture.window_theta);
  if (const auto parameters = facts.find_facts({"rope_parameters"}))
    if (parameters->find({"sliding_attention"}) != nullptr)
      config.window_rope = read_rope(facts, architecture, config, "sliding_attention");
  return config;
}

}  // namespace kvreplay
