// Tokenizers of vocab.json and merges.txt: ids as GPT2Tokenizer of transformers gives them, and
// what is refused.
#include "capture/gpt2_files.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "capture/hugging_face_tokenizer.hpp"
#include "changed_bytes.hpp"
#include "gguf_builder.hpp"
#include "paths.hpp"
#include "token_pairs.hpp"
#include "traces/errors.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Matchers::Contains;
using Json = nlohmann::json;

std::filesystem::path fixtures() {
  return test_data() / "tokenizer" / "gpt2_files";
}

/// A copy of a fixture that a test changes.
class Copy {
 public:
  explicit Copy(const std::string& name) {
    std::filesystem::copy(fixtures() / name, folder_.path());
  }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

  /// Changes a JSON file by a patch: null takes a key out.
  Copy& merge(const std::string& file, const std::string& patch) {
    Json json = std::filesystem::exists(folder_ / file) ? Json::parse(read_file(folder_ / file))
                                                        : Json::object();
    json.merge_patch(Json::parse(patch));
    write_file(folder_ / file, json.dump());
    return *this;
  }
  std::unique_ptr<Tokenizer> read() const { return read_gpt2_files(folder_.path()); }

  /// Why the tokenizer cannot be read; "" where it can.
  std::string refusal() const {
    try {
      read();
    } catch (const InputError& error) {
      CHECK_THAT(error.what(), Catch::StartsWith(folder_.path().string()));
      return error.what();
    }
    return "";
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("tokenizers of vocab.json and merges.txt: ids as from transformers") {
  const std::string name = GENERATE("gpt2", "opt", "added", "older");
  CAPTURE(name);
  const auto tokenizer = read_hugging_face_tokenizer(fixtures() / name);
  for (const auto& [kind, text, ids] : read_pairs(fixtures() / "texts.pairs", name)) {
    INFO(kind << ": " << text);
    CHECK(tokenizer->encode(text) == ids);
  }
}

TEST_CASE("tokenizers of vocab.json and merges.txt: the tokens that begin and end a text") {
  CHECK(Copy("opt").read()->bos() == 2);
  CHECK(Copy("opt").read()->eos() == 2);
  CHECK(!Copy("gpt2").read()->bos());
  CHECK(Copy("gpt2").merge("config.json", R"({"eos_token_id":7})").read()->eos() == 7);
  CHECK(Copy("gpt2").merge("config.json", R"({"eos_token_id":null})").read()->eos() == 0);
  CHECK(Copy("gpt2").read()->piece(0) == "<|endoftext|>");

  // A special token without an id gets the next one, as in GPT-2's class.
  Copy none("opt");
  std::filesystem::remove(none / "special_tokens_map.json");
  none.merge("tokenizer_config.json", R"({"bos_token":"<new>"})");
  const auto ids = none.read()->encode("a<new>");
  REQUIRE(ids.size() == 3);
  CHECK(ids[0] == 400);
  CHECK(ids[2] == 400);

  // Windows writes lines so; GPT2Tokenizer reads them alike.
  Copy windows("gpt2");
  std::string merges = read_file(windows / "merges.txt");
  for (std::size_t at = 0; (at = merges.find('\n', at)) != std::string::npos; at += 2)
    merges.insert(at, 1, '\r');
  write_file(windows / "merges.txt", merges);
  CHECK(windows.read()->encode(" the and") == Copy("gpt2").read()->encode(" the and"));
}

TEST_CASE("tokenizers of vocab.json and merges.txt: what is not known is refused by its name") {
  const std::string config = "tokenizer_config.json";
  const auto refusal = [](const std::string& file, const std::string& patch) {
    return Copy("opt").merge(file, patch).refusal();
  };
  CHECK(Copy("opt").refusal().empty());
  CHECK_THAT(refusal(config, R"({"tokenizer_class":"Qwen2Tokenizer"})"),
             Contains("tokenizer_class is \"Qwen2Tokenizer\"") &&
                 Contains("AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"));
  CHECK(refusal(config, R"({"tokenizer_class":null})").empty());
  CHECK_THAT(Copy("gpt2").merge("config.json", R"({"model_type":"qwen2"})").refusal(),
             Contains("config.json: model_type is \"qwen2\""));
  CHECK_THAT(refusal(config, R"({"add_prefix_space":true})"), Contains("add_prefix_space is true"));
  CHECK_THAT(refusal(config, R"({"split_special_tokens":true})"), Contains("split_special_tokens"));
  CHECK_THAT(
      refusal("special_tokens_map.json", R"({"mask_token":{"content":"<m>","lstrip":true}})"),
      Contains("special_tokens_map.json: mask_token.lstrip of token \"<m>\" is true"));
  CHECK_THAT(refusal("special_tokens_map.json", R"({"pad_token":3})"),
             Contains("pad_token is no token"));
  CHECK_THAT(refusal("special_tokens_map.json", R"({"additional_special_tokens":3})"),
             Contains("additional_special_tokens is no list"));
  Copy none("opt");
  std::filesystem::remove(none / "special_tokens_map.json");
  none.merge(config, R"({"bos_token":null})");
  CHECK(none.refusal().empty());  // <|endoftext|>, by default
  Json null = Json::parse(read_file(none / config));
  null["bos_token"] = nullptr;
  write_file(none / config, null.dump());
  CHECK_THAT(none.refusal(), Contains("add_bos_token is true, and there is no bos_token"));
  CHECK_THAT(Copy("added").merge(config, R"({"added_tokens_decoder":{"x\n":"y"}})").refusal(),
             Contains("added_tokens_decoder.x\\n is no id of a token"));
  CHECK_THAT(Copy("added").merge(config, R"({"added_tokens_decoder":{"7":"y"}})").refusal(),
             Contains("\"y\" have the same id 7"));
  CHECK_THAT(refusal("added_tokens.json", R"({"y":-1})"), Contains("of token \"y\" is no id"));
  CHECK_THAT(refusal("vocab.json", R"({"A":null})"), Contains("no token for the byte 65"));
}

TEST_CASE("tokenizers of vocab.json and merges.txt: changed bytes are refused or harmless") {
  const std::string file = GENERATE("vocab.json", "merges.txt", "tokenizer_config.json",
                                    "special_tokens_map.json", "added_tokens.json");
  CAPTURE(file);
  const Copy copy(file == "tokenizer_config.json" ? "added" : "older");
  const double share =
      refused_share(read_file(copy / file), 20261130, 200, [&](const std::string& changed) {
        write_file(copy / file, changed);
        if (!copy.refusal().empty()) return true;
        copy.read()->encode("<s> a \n b\xff<pad>");
        return false;
      });
  CHECK(share > 0.25);
}

TEST_CASE("tokenizers of vocab.json and merges.txt: a spoilt list of merges is refused") {
  const std::string bytes = read_file(fixtures() / "gpt2" / "merges.txt");
  const auto refusal = [](const std::string& merges) {
    const Copy copy("gpt2");
    write_file(copy / "merges.txt", merges);
    return copy.refusal();
  };
  CHECK(refusal(bytes).empty());
  CHECK_THAT(refusal(bytes.substr(bytes.find('\n') + 1)), Contains("#version: 0.2"));
  CHECK_THAT(refusal(bytes.substr(0, bytes.size() - 1)), Contains("cut short"));
  CHECK_THAT(refusal(bytes + "a\n"), Contains("is not two tokens with one space"));
  CHECK_THAT(refusal(bytes + "a \u0001\n"), Contains("\\x01"));
  const auto lines = std::count(bytes.begin(), bytes.end(), '\n');
  CHECK_THAT(refusal(bytes + "a\n"),
             Contains("/merges.txt: line " + std::to_string(lines + 1) + " \"a\" "));
  const Copy copy("gpt2");
  std::filesystem::remove(copy / "merges.txt");
  CHECK_THROWS_WITH(read_hugging_face_tokenizer(copy / ""), Contains("tokenizer.json"));
}

}  // namespace kvreplay::testing
