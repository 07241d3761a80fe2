// Folders as Hugging Face lays them out: copies of the tiny models, whole and spoilt.
#include "capture/hugging_face_folder.hpp"

#include <catch2/catch.hpp>
#include <cstring>

#include "capture/json_file.hpp"
#include "capture/model_weights.hpp"
#include "changed_bytes.hpp"
#include "gguf_builder.hpp"
#include "paths.hpp"
#include "traces/errors.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Matchers::Contains;

/// A copy of a tiny model that a test spoils.
class Copy {
 public:
  explicit Copy(const std::string& name) {
    std::filesystem::copy(test_data() / "architectures" / name, folder_.path(),
                          std::filesystem::copy_options::recursive);
  }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  const std::filesystem::path& path() const { return folder_.path(); }

  /// Changes a JSON file by a patch: null takes a key out.
  Copy& merge(const std::string& patch, const std::string& file = "config.json") {
    Json json = Json::parse(read_file(folder_ / file));
    json.merge_patch(Json::parse(patch));
    write_file(folder_ / file, json.dump());
    return *this;
  }
  /// Replaces a text of a file by one of the same length.
  Copy& replace(const std::string& file, const std::string& from, const std::string& to) {
    std::string bytes = read_file(folder_ / file);
    REQUIRE(from.size() == to.size());
    REQUIRE(bytes.find(from) != std::string::npos);
    write_file(folder_ / file, bytes.replace(bytes.find(from), from.size(), to));
    return *this;
  }

  /// Names the tensors of model.safetensors anew.
  template <class NewName>
  Copy& rename(const NewName& new_name) {
    const std::string bytes = read_file(folder_ / "model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    const Json old = Json::parse(bytes.substr(sizeof length, length));
    Json table;
    for (const auto& [name, entry] : old.items()) table[new_name(name)] = entry;
    const std::string text = table.dump();
    write_file(folder_ / "model.safetensors",
               raw<std::uint64_t>(text.size()) + text + bytes.substr(sizeof length + length));
    return *this;
  }

  /// The file that holds a tensor.
  std::string shard_of(const std::string& tensor) const {
    const Json index = Json::parse(read_file(folder_ / "model.safetensors.index.json"));
    return index.at("weight_map").at(tensor);
  }

  /// Why the model cannot be loaded; "" where it can.
  std::string refusal() const {
    try {
      const HuggingFaceFolder model(folder_.path());
      const ModelWeights weights(model, model.config());
    } catch (const InputError& error) {
      CHECK_THAT(error.what(), Catch::StartsWith(folder_.path().string()));
      return error.what();
    }
    return "";
  }

 private:
  TemporaryFolder folder_;
};

std::string refusal(const std::string& patch, const std::string& name = "llama_linear") {
  return Copy(name).merge(patch).refusal();
}

}  // namespace

TEST_CASE("a folder's facts: layers, windows, scales, rope") {
  const auto config = [](const std::string& name, const std::string& patch = "{}") {
    Copy copy(name);
    copy.merge(patch);
    return HuggingFaceFolder(copy.path()).config();
  };
  const ModelConfig qwen = config("qwen2");
  CHECK(qwen.attention[0].window == 0);
  CHECK(qwen.attention[0].type == "full");
  CHECK(qwen.attention[1].window == 5);
  CHECK(qwen.attention[1].type == "window");
  CHECK(config("qwen2", R"({"use_sliding_window":null})").attention[1].window == 0);
  CHECK(config("qwen2", R"({"layer_types":null,"max_window_layers":0})").attention[0].window == 5);
  CHECK(config("qwen2", R"({"layer_types":null,"max_window_layers":1})").attention[0].window == 0);

  const ModelConfig gemma = config("gemma2", R"({"layer_types":null})");
  CHECK(gemma.attention[0].window == 6);
  CHECK(gemma.attention[1].window == 0);
  CHECK(gemma.attention[0].softcap == 2);
  CHECK(gemma.final_softcap == 3);
  CHECK(gemma.attention[1].scale == Approx(1 / std::sqrt(5.0)));
  CHECK(config("gemma2", R"({"attn_logit_softcapping":null})").attention[0].softcap == 0);

  CHECK(config("llama_linear").rope.scale == 0.25);
  CHECK(config("llama_linear").rope.pairs == RopePairs::halves);
  CHECK(config("gpt_neox").rope.dimensions == 4);
  CHECK(config("gpt2").rope.dimensions == 0);
  CHECK(config("opt").token_size() == 24);
  CHECK(config("opt").structure.output_norm);
  CHECK(!config("opt").structure.norms_behind);
  CHECK(!config("opt", R"({"_remove_final_layer_norm":true})").structure.output_norm);
  CHECK(config("opt_350m").token_size() == 12);
  CHECK(!config("opt_350m").structure.output_norm);
  CHECK(config("opt_350m").structure.norms_behind);
  CHECK(config("gpt2").feed_forward == 96);
  CHECK(config("gpt2_scaled").attention[1].scale == Approx(config("gpt2").attention[1].scale / 2));

  // As newer versions write them: one dictionary, for kinds of layers where these differ.
  const ModelConfig newer = config("llama_linear", R"({"rope_theta":null,"rope_scaling":null,
      "rope_parameters":{"rope_type":"linear","factor":8.0,"rope_theta":700.0}})");
  CHECK(newer.rope.scale == 0.125);
  CHECK(newer.rope.theta == 700);
  const ModelConfig both = config("gemma3", R"({"rope_theta":null,"rope_scaling":null,
      "rope_local_base_freq":null,"rope_parameters":{
      "full_attention":{"rope_type":"linear","factor":8.0,"rope_theta":1000000.0},
      "sliding_attention":{"rope_type":"default","rope_theta":300.0}}})");
  const ModelConfig older = config("gemma3");
  CHECK(both.rope.theta == older.rope.theta);
  CHECK(both.rope.scale == older.rope.scale);
  CHECK(both.window_rope->theta == 300);
  CHECK(older.window_rope->theta == 300);
  CHECK(both.window_rope->scale == 1);
  CHECK(older.window_rope->scale == 1);
}

TEST_CASE("a configuration that cannot be followed is refused by its key") {
  CHECK(refusal("{}").empty());
  CHECK_THAT(
      refusal(R"({"model_type":"mamba"})"),
      Contains("config.json: model_type is \"mamba\"") &&
          Contains("llama, mistral, qwen2, qwen3, gemma2, gemma3_text, opt, gpt_neox, gpt2"));
  CHECK_THAT(refusal(R"({"model_type":null})"), Contains("has no model_type"));
  CHECK_THAT(refusal(R"({"hidden_size":null})"), Contains("has no hidden_size"));
  CHECK_THAT(refusal(R"({"hidden_size":"24"})"), Contains("hidden_size is \"24\""));
  CHECK_THAT(refusal(R"({"hidden_size":-24})"), Contains("hidden_size is -24"));
  CHECK_THAT(refusal(R"({"hidden_size":24.5})"), Contains("hidden_size is 24.5"));
  CHECK_THAT(refusal(R"({"hidden_size":4294967320})"), Contains("whole number of 1 to 16777216"));
  CHECK_THAT(refusal(R"({"num_hidden_layers":70000})"), Contains("more than a trace holds"));
  CHECK_THAT(refusal(R"({"num_key_value_heads":3})"), Contains("4, not a multiple of"));
  CHECK_THAT(refusal(R"({"head_dim":null,"num_attention_heads":5,"num_key_value_heads":5})"),
             Contains("hidden_size is 24, not a multiple of num_attention_heads 5"));
  CHECK_THAT(refusal(R"({"head_dim":7})"), Contains("would turn 7 of the 7"));
  CHECK_THAT(refusal(R"({"head_dim":16777216})"), Contains("too large"));
  CHECK_THAT(refusal(R"({"rms_norm_eps":0})"), Contains("rms_norm_eps is 0"));
  CHECK_THAT(refusal(R"({"rope_theta":-1})"), Contains("rope_theta is -1"));
  CHECK_THAT(refusal(R"({"hidden_act":"mish"})"), Contains("\"mish\"") && Contains("gelu_new"));
  CHECK_THAT(refusal(R"({"mlp_bias":true})"), Contains("mlp_bias is true"));
  CHECK_THAT(refusal(R"({"tie_word_embeddings":3})"), Contains("3 where true or false"));
  CHECK_THAT(refusal(R"({"quantization_config":{"quant_method":"gptq"}})"), Contains("\"gptq\""));
  CHECK_THAT(refusal(R"({"rope_scaling":{"rope_type":"dynamic"}})"),
             Contains("rope_scaling.rope_type is \"dynamic\"") && Contains("\"yarn\""));
  CHECK_THAT(refusal(R"({"rope_scaling":{"rope_type":"linear","factor":0}})"),
             Contains("rope_scaling.factor is 0"));
  CHECK_THAT(refusal(R"({"rope_scaling":{"high_freq_factor":1.0}})", "llama3"),
             Contains("must be above"));
  CHECK_THAT(refusal(R"({"rope_scaling":{"mscale":1.0}})", "llama_yarn"), Contains("mscale"));
  CHECK_THAT(refusal(R"({"rope_scaling":3})"), Contains("3 where an object"));
  CHECK_THAT(refusal(R"({"layer_types":["full_attention"]})", "qwen2"),
             Contains("no list of 2 kinds"));
  CHECK_THAT(refusal(R"({"layer_types":["full_attention","chunked_attention"]})", "qwen2"),
             Contains("layer_types[1] is neither"));
  CHECK_THAT(refusal(R"({"word_embed_proj_dim":25})", "opt"),
             Contains("word_embed_proj_dim is 25 where the layers hold 24"));
  CHECK_THAT(refusal(R"({"word_embed_proj_dim":12})", "opt"),
             Contains("has the shape {64, 24} where config.json calls for {64, 12}"));
  CHECK_THAT(refusal(R"({"do_layer_norm_before":false})", "opt"),
             Contains("tensor \"output_norm."));
}

TEST_CASE("files of a folder that are missing, damaged or of another model are refused") {
  const TemporaryFolder empty;
  CHECK_THROWS_WITH(HuggingFaceFolder(empty.path()), Contains("has no config.json"));
  Copy copy("llama");
  const std::string second = "model-00002-of-00003.safetensors";
  SECTION("no weights") {
    std::filesystem::remove(copy / "model.safetensors.index.json");
    CHECK_THAT(copy.refusal(), Contains("neither model.safetensors nor"));
    const std::string pickled = GENERATE("pytorch_model.bin", "pytorch_model.bin.index.json");
    write_file(copy / pickled, "x");
    CHECK_THAT(copy.refusal(), Contains("has its weights as " + pickled + ", which is not read") &&
                                   Contains("save_pretrained(FOLDER, safe_serialization=True)"));
  }
  SECTION("a missing shard") {
    std::filesystem::remove(copy / second);
    CHECK_THAT(copy.refusal(), Contains("index.json: names the shard \"" + second + "\""));
  }
  SECTION("a shard that is cut short") {
    std::filesystem::resize_file(copy / second, 16000);
    CHECK_THAT(copy.refusal(), Contains(second + ": tensor ") && Contains("lies at data bytes"));
  }
  SECTION("a tensor that is elsewhere") {
    const std::string first = "model-00001-of-00003.safetensors";
    REQUIRE(copy.shard_of("lm_head.weight") != first);
    copy.merge(R"({"weight_map":{"lm_head.weight":")" + first + R"("}})",
               "model.safetensors.index.json");
    CHECK_THAT(copy.refusal(),
               Contains("\"lm_head.weight\" is in \"" + first + "\", which does not hold it"));
  }
  SECTION("a shard outside the folder") {
    copy.merge(R"({"weight_map":{"lm_head.weight":"../m.safetensors"}})",
               "model.safetensors.index.json");
    CHECK_THAT(copy.refusal(), Contains("no plain file name for tensor \"lm_head.weight\""));
  }
  SECTION("an index without a map") {
    copy.merge(R"({"weight_map":null})", "model.safetensors.index.json");
    CHECK_THAT(copy.refusal(), Contains("has no weight_map"));
  }
  SECTION("a configuration that is cut short") {
    std::filesystem::resize_file(copy / "config.json", 100);
    CHECK_THAT(copy.refusal(), Contains("config.json: is not JSON from byte 101 on"));
  }
  SECTION("a configuration of another size") {
    copy.merge(R"({"intermediate_size":41})");
    CHECK_THAT(copy.refusal(), Contains("gate_proj.weight\" has the shape {40, 24} where") &&
                                   Contains("calls for {41, 24}"));
  }
  SECTION("more layers than there are") {
    copy.merge(R"({"num_hidden_layers":3})");
    CHECK_THAT(copy.refusal(), Contains("no tensor \"model.layers.2.input_layernorm.weight\""));
  }
  SECTION("fewer layers than there are") {
    copy.merge(R"({"num_hidden_layers":1})");
    CHECK_THAT(copy.refusal(), Contains("blk.1.") && Contains("is not part of"));
  }
  SECTION("no head") {
    copy.replace(copy.shard_of("lm_head.weight"), "lm_head.weight", "lm_hood.weight")
        .replace("model.safetensors.index.json", "lm_head.weight", "lm_hood.weight");
    CHECK_THAT(copy.refusal(), Contains("no tensor \"lm_head.weight\""));
  }
  SECTION("a tensor that the architecture does not have") {
    copy.merge(R"({"tie_word_embeddings":true})")
        .replace(copy.shard_of("lm_head.weight"), "lm_head.weight", "lm_hood.weight")
        .replace("model.safetensors.index.json", "lm_head.weight", "lm_hood.weight");
    CHECK_THAT(copy.refusal(), Contains("tensor \"lm_hood.weight\" is not part of"));
  }
}

TEST_CASE("values that are no floats are refused where they are used, other tensors passed over") {
  Copy copy("gpt2");
  // Every tensor's bytes stay: I16 is as wide as F16.
  copy.replace("model.safetensors", R"(wpe.weight":{"dtype":"F16")",
               R"(wpe.weight":{"dtype":"I16")");
  CHECK_THAT(copy.refusal(), Contains("is stored as I16; F32, F16 and BF16 are read"));
  Copy masked("gpt2");
  masked.replace("model.safetensors", "transformer.h.1.mlp.c_fc.bias",
                 "transformer.xxx.h.1.attn.bias");
  CHECK_THAT(masked.refusal(), Contains("no tensor \"transformer.h.1.mlp.c_fc.bias\""));
}

TEST_CASE("the start of a family's prefix may be missing") {
  struct Prefix {
    std::string model;
    std::string whole;
    std::string stored;
  };
  const auto prefix = GENERATE(values<Prefix>({{"qwen2", "model.", ""},
                                               {"opt", "model.decoder.", "decoder."},
                                               {"opt", "model.decoder.", ""},
                                               {"gpt2", "transformer.", ""},
                                               {"gpt_neox", "gpt_neox.", ""}}));
  CAPTURE(prefix.model, prefix.stored);
  std::size_t renamed = 0;
  Copy copy(prefix.model);
  copy.rename([&](const std::string& name) {
    if (!name.starts_with(prefix.whole)) return name;
    ++renamed;
    return prefix.stored + name.substr(prefix.whole.size());
  });
  CHECK(renamed > 10);
  CHECK(copy.refusal().empty());
}

TEST_CASE("what older files hold beside weights is passed over") {
  // In the place of the embedding, so that it is missed and nothing else is said.
  const auto [model, embedding, other] = GENERATE(table<std::string, std::string, std::string>(
      {{"opt", "model.decoder.embed_tokens.weight", "model.decoder.version"},
       {"opt", "model.decoder.embed_tokens.weight", "decoder.version"},
       {"gpt2", "transformer.wte.weight", "h.0.attn.bias"},
       {"gpt_neox", "gpt_neox.embed_in.weight", "gpt_neox.layers.0.attention.bias"}}));
  CAPTURE(other);
  Copy copy(model);
  copy.rename([&, &embedding = embedding, &other = other](const std::string& name) {
    return name == embedding ? other : name;
  });
  CHECK_THAT(copy.refusal(), Contains("has no tensor \"" + embedding + "\""));
}

TEST_CASE("changed bytes of config.json are refused or harmless") {
  const Copy copy("gemma3");
  const double share = refused_share(read_file(copy / "config.json"), 20260802, 1000,
                                     [&](const std::string& changed) {
                                       write_file(copy / "config.json", changed);
                                       return !copy.refusal().empty();
                                     });
  CHECK(share > 0.25);
}

}  // namespace kvreplay::testing
