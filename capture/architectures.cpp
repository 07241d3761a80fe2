#include "capture/architectures.hpp"

#include <algorithm>

#include "traces/errors.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

using enum Layout;

const TensorNames llama_names{
    .prefix = "model.",
    .layers = "layers.",
    .of_model = {{"token_embd", "embed_tokens"}, {"output_norm", "norm"}, {"output", "lm_head"}},
    .of_layer = {{"attn_norm", "input_layernorm"},
                 {"attn_q", "self_attn.q_proj"},
                 {"attn_k", "self_attn.k_proj"},
                 {"attn_v", "self_attn.v_proj"},
                 {"attn_output", "self_attn.o_proj"},
                 {"attn_q_norm", "self_attn.q_norm"},
                 {"attn_k_norm", "self_attn.k_norm"},
                 {"ffn_norm", "post_attention_layernorm"},
                 {"ffn_gate", "mlp.gate_proj"},
                 {"ffn_up", "mlp.up_proj"},
                 {"ffn_down", "mlp.down_proj"}},
    .no_weights = {"rotary_emb.inv_freq"}};

const TensorNames gemma_names{
    .prefix = "model.",
    .layers = "layers.",
    .of_model = {{"token_embd", "embed_tokens"},
                 {"output_norm", "norm", one_less},
                 {"output", "lm_head"}},
    .of_layer = {{"attn_norm", "input_layernorm", one_less},
                 {"attn_q", "self_attn.q_proj"},
                 {"attn_k", "self_attn.k_proj"},
                 {"attn_v", "self_attn.v_proj"},
                 {"attn_output", "self_attn.o_proj"},
                 {"attn_q_norm", "self_attn.q_norm", one_less},
                 {"attn_k_norm", "self_attn.k_norm", one_less},
                 {"post_attention_norm", "post_attention_layernorm", one_less},
                 {"ffn_norm", "pre_feedforward_layernorm", one_less},
                 {"ffn_gate", "mlp.gate_proj"},
                 {"ffn_up", "mlp.up_proj"},
                 {"ffn_down", "mlp.down_proj"},
                 {"post_ffw_norm", "post_feedforward_layernorm", one_less}},
    .no_weights = {"rotary_emb.inv_freq"}};

const TensorNames gpt2_names{.prefix = "transformer.",
                             .layers = "h.",
                             .of_model = {{"token_embd", "wte"},
                                          {"position_embd", "wpe"},
                                          {"output_norm", "ln_f"},
                                          {"output", "lm_head"}},
                             .of_layer = {{"attn_norm", "ln_1"},
                                          {"attn_qkv", "attn.c_attn", transposed},
                                          {"attn_output", "attn.c_proj", transposed},
                                          {"ffn_norm", "ln_2"},
                                          {"ffn_up", "mlp.c_fc", transposed},
                                          {"ffn_down", "mlp.c_proj", transposed}},
                             .no_weights = {".attn.bias", ".attn.masked_bias"}};

const TensorNames neox_names{
    .prefix = "gpt_neox.",
    .layers = "layers.",
    .of_model = {{"token_embd", "embed_in"},
                 {"output_norm", "final_layer_norm"},
                 {"output", "embed_out"}},
    .of_layer = {{"attn_norm", "input_layernorm"},
                 {"attn_qkv", "attention.query_key_value", qkv_by_head},
                 {"attn_output", "attention.dense"},
                 {"ffn_norm", "post_attention_layernorm"},
                 {"ffn_up", "mlp.dense_h_to_4h"},
                 {"ffn_down", "mlp.dense_4h_to_h"}},
    .no_weights = {".attention.bias", ".attention.masked_bias", "rotary_emb.inv_freq"}};

const TensorNames opt_names{.prefix = "model.decoder.",
                            .layers = "layers.",
                            .of_model = {{"token_embd", "embed_tokens"},
                                         {"position_embd", "embed_positions", behind_two_rows},
                                         {"project_in", "project_in"},
                                         {"project_out", "project_out"},
                                         {"output_norm", "final_layer_norm"},
                                         {"output", "lm_head"}},
                            .of_layer = {{"attn_norm", "self_attn_layer_norm"},
                                         {"attn_q", "self_attn.q_proj"},
                                         {"attn_k", "self_attn.k_proj"},
                                         {"attn_v", "self_attn.v_proj"},
                                         {"attn_output", "self_attn.out_proj"},
                                         {"ffn_norm", "final_layer_norm"},
                                         {"ffn_up", "fc1"},
                                         {"ffn_down", "fc2"}},
                            .no_weights = {"decoder.version"}};

constexpr Structure kLayerNormAndBiases{.norm = NormKind::layer,
                                        .positions = Positions::learned,
                                        .activation = Activation::gelu_tanh,
                                        .gated = false,
                                        .fused_qkv = true,
                                        .qkv_bias = true,
                                        .output_bias = true,
                                        .feed_forward_bias = true};

constexpr Structure with(Structure structure, void (*change)(Structure&)) {
  change(structure);
  return structure;
}

const std::vector<Architecture>& known() {
  static const std::vector<Architecture> table = {
      {.name = "llama",
       .model_type = "llama",
       .structure = {},
       .names = &llama_names,
       .gguf_pairs = RopePairs::adjacent},
      {.name = "mistral",  // "llama" in GGUF
       .model_type = "mistral",
       .structure = {},
       .names = &llama_names,
       .in_gguf = false},
      {.name = "qwen2",
       .model_type = "qwen2",
       .structure = {.qkv_bias = true},
       .names = &llama_names,
       .window_unasked = false},
      {.name = "qwen3",
       .model_type = "qwen3",
       .structure = {.qk_norm = true},
       .names = &llama_names,
       .window_unasked = false},
      {.name = "gemma2",
       .model_type = "gemma2",
       .structure = {.activation = Activation::gelu_tanh,
                     .post_norms = true,
                     .scaled_embedding = true},
       .names = &gemma_names,
       .tied = true,
       .full_every = 2,
       .softcap = 50,
       .final_softcap = 30,
       .layers_scaled_by_width = 46},
      {.name = "gemma3",
       .model_type = "gemma3_text",
       .structure = {.activation = Activation::gelu_tanh,
                     .qk_norm = true,
                     .post_norms = true,
                     .scaled_embedding = true},
       .names = &gemma_names,
       .tied = true,
       .full_every = 6,
       .window_theta = 10000,
       .layers_scaled_by_width = 62},
      {.name = "opt",
       .model_type = "opt",
       .structure = with(kLayerNormAndBiases,
                         [](Structure& opt) {
                           opt.activation = Activation::relu;
                           opt.fused_qkv = false;
                         }),
       .names = &opt_names,
       .tied = true,
       .in_gguf = false},
      {.name = "gptneox",
       .model_type = "gpt_neox",
       .structure = with(kLayerNormAndBiases,
                         [](Structure& neox) {
                           neox.positions = Positions::rope;
                           neox.activation = Activation::gelu;
                           neox.parallel_residual = true;
                         }),
       .names = &neox_names,
       .rotary_share = 0.25},
      {.name = "gpt2",
       .model_type = "gpt2",
       .structure = kLayerNormAndBiases,
       .names = &gpt2_names,
       .tied = true},
  };
  return table;
}

template <class Name, class Has>
const Architecture& find(const std::string& where, std::string_view wanted, const Name& name,
                         const Has& has) {
  std::string names;
  for (const Architecture& architecture : known()) {
    if (!has(architecture)) continue;
    if (architecture.*name == wanted) return architecture;
    names += (names.empty() ? "" : ", ") + std::string(architecture.*name);
  }
  throw InputError(where + " is " + in_quotes(wanted) + ", which is not supported; capture knows " +
                   names);
}

}  // namespace

std::span<const Architecture> architectures() {
  return known();
}

const Architecture& architecture_of_gguf(const std::string& where, std::string_view name) {
  return find(where, name, &Architecture::name,
              [](const Architecture& one) { return one.in_gguf; });
}

const Architecture& architecture_of_model_type(const std::string& where, std::string_view type) {
  return find(where, type, &Architecture::model_type, [](const Architecture&) { return true; });
}

}  // namespace kvreplay
