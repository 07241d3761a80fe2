// Tokenizers of folders: ids as the package `tokenizers` gives them, and what is refused.
#include "capture/hugging_face_tokenizer.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

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
  return test_data() / "tokenizer" / "hugging_face";
}

/// Why the tokenizer cannot be read once `patch` (null takes a key out) was merged into it; ""
/// where it can.
std::string refusal(const std::string& name, const std::string& patch) {
  const TemporaryFolder folder;
  Json json = Json::parse(read_file(fixtures() / name / "tokenizer.json"));
  json.merge_patch(Json::parse(patch));
  const auto path = write_file(folder / "tokenizer.json", json.dump());
  try {
    read_hugging_face_tokenizer(folder.path());
  } catch (const InputError& error) {
    CHECK_THAT(error.what(), Catch::StartsWith(path.string() + ": "));
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("tokenizers of folders: ids as from the tokenizers package") {
  const std::string name =
      GENERATE("gpt2", "smollm", "llama3", "qwen2", "llama2", "mistral", "always", "gemma");
  CAPTURE(name);
  const auto tokenizer = read_hugging_face_tokenizer(fixtures() / name);
  for (const auto& [kind, text, ids] : read_pairs(fixtures() / "texts.pairs", name)) {
    INFO(kind << ": " << text);
    CHECK(tokenizer->encode(text) == ids);
  }
}

TEST_CASE("tokenizers of folders: pieces, and the tokens that begin and end a text") {
  const auto gpt2 = read_hugging_face_tokenizer(fixtures() / "gpt2");
  std::string text;
  for (const std::uint32_t id : gpt2->encode("In the beginning \u00e9 1<|im_start|>")) {
    text += gpt2->piece(id);
  }
  CHECK(text == "In the beginning \u00e9 1<|im_start|>");
  CHECK(!gpt2->bos());
  CHECK(!gpt2->eos());
  const auto llama2 = read_hugging_face_tokenizer(fixtures() / "llama2");
  CHECK(llama2->bos() == 1);
  text.clear();
  for (const std::uint32_t id : llama2->encode("a b", false)) text += llama2->piece(id);
  CHECK(text == " a b");

  // Gemma adds tokens that merges make too; they are not cut out of the text beforehand.
  const TemporaryFolder folder;
  Json gemma = Json::parse(read_file(fixtures() / "gemma" / "tokenizer.json"));
  const std::string spaces = "\u2581\u2581\u2581\u2581";
  gemma["added_tokens"].push_back(
      {{"id", gemma["model"]["vocab"][spaces]}, {"content", spaces}, {"special", false}});
  write_file(folder / "tokenizer.json", gemma.dump());
  const auto added = read_hugging_face_tokenizer(folder.path());
  const auto ids = read_hugging_face_tokenizer(fixtures() / "gemma")->encode("    ", false);
  CHECK(added->encode("    ", false) == ids);
  REQUIRE(ids.size() == 1);
  CHECK(added->piece(ids[0]) == "    ");

  std::filesystem::copy_file(fixtures() / "llama2" / "tokenizer.json", folder / "tokenizer.json",
                             std::filesystem::copy_options::overwrite_existing);
  write_file(folder / "config.json", R"({"eos_token_id":5})");
  CHECK(read_hugging_face_tokenizer(folder.path())->eos() == 5);
  write_file(folder / "generation_config.json", R"({"eos_token_id":[2,5]})");
  CHECK(read_hugging_face_tokenizer(folder.path())->eos() == 2);
  write_file(folder / "generation_config.json", R"({"eos_token_id":100000})");
  CHECK_THROWS_WITH(read_hugging_face_tokenizer(folder.path()),
                    Contains("generation_config.json: eos_token_id is no token"));
}

TEST_CASE("tokenizers of folders: changed bytes are refused or harmless") {
  const std::string name = GENERATE("llama3", "llama2");
  const std::string bytes = read_file(fixtures() / name / "tokenizer.json");
  const TemporaryFolder folder;
  const auto is_refused = [&](const std::string& changed) {
    write_file(folder / "tokenizer.json", changed);
    try {
      read_hugging_face_tokenizer(folder.path())->encode("<s> a \n b\xff");
    } catch (const InputError& error) {
      CHECK_THAT(error.what(), Catch::StartsWith((folder / "tokenizer.json").string()));
      return true;
    }
    return false;
  };
  CHECK(refused_share(bytes, 20260803, 300, is_refused, bytes.find("\"vocab\"")) > 0.25);
}

TEST_CASE("tokenizers of folders: what is not known is refused by its name") {
  CHECK(refusal("gpt2", "{}").empty());
  CHECK_THAT(refusal("gpt2", R"({"model":{"type":"Unigram"}})"), Contains("\"Unigram\""));
  CHECK_THAT(refusal("gpt2", R"({"model":null})"), Contains("has no model"));
  CHECK_THAT(refusal("gpt2", R"({"model":{"dropout":0.1}})"), Contains("model.dropout"));
  CHECK_THAT(refusal("gpt2", R"({"model":{"end_of_word_suffix":"</w>"}})"), Contains("suffix"));
  CHECK_THAT(refusal("gpt2", R"({"model":{"vocab":null}})"), Contains("model.vocab"));
  CHECK_THAT(refusal("gpt2", R"({"model":{"vocab":{"x":-1}}})"), Contains("token \"x\" is no id"));
  CHECK_THAT(refusal("gpt2", R"({"model":{"vocab":{"new":4000000000}}})"), Contains("\"new\""));
  CHECK_THAT(refusal("gpt2", R"({"model":{"vocab":{"new":9}}})"), Contains("have the same id 9"));
  CHECK_THAT(refusal("gpt2", R"({"model":{"merges":[["a"]]}})"), Contains("merges[0]"));
  CHECK_THAT(refusal("gpt2", R"({"model":{"merges":["a \u0001"]}})"), Contains("merges[0]"));
  CHECK_THAT(refusal("gemma", R"({"model":{"merges":["a \u0001"]}})"), Contains("merges[0]"));
  CHECK_THAT(refusal("gpt2", R"({"normalizer":{"type":"Lowercase"}})"), Contains("\"Lowercase\""));
  CHECK_THAT(refusal("gpt2", R"({"pre_tokenizer":{"add_prefix_space":true}})"),
             Contains("pre_tokenizer.add_prefix_space is true"));
  CHECK_THAT(refusal("gpt2", R"({"pre_tokenizer":{"use_regex":false}})"), Contains("use_regex"));
  CHECK_THAT(refusal("gpt2", R"({"pre_tokenizer":{"type":"Whitespace"}})"),
             Contains("neither byte-level nor has it byte_fallback"));
  CHECK_THAT(refusal("gpt2", R"({"post_processor":{"type":"BertProcessing"}})"),
             Contains("\"BertProcessing\""));
  CHECK_THAT(
      refusal("gpt2", R"({"added_tokens":[{"id":0,"content":"<|endoftext|>","lstrip":true}]})"),
      Contains("added_tokens[0].lstrip of token \"<|endoftext|>\""));
  CHECK_THAT(refusal("gpt2", R"({"added_tokens":[{"content":"x y"}]})"), Contains("\"x y\""));
  CHECK_THAT(
      refusal("llama2", R"({"added_tokens":[{"id":0,"content":"<unk>","normalized":true}]})"),
      Contains("normalized"));
  CHECK_THAT(refusal("llama2", R"({"post_processor":{"single":[{"SpecialToken":{"id":"<x>"}}]}})"),
             Contains("\"<x>\", which is no token"));
  CHECK_THAT(refusal("mistral", R"({"pre_tokenizer":{"split":true}})"), Contains("does not split"));
  CHECK_THAT(refusal("mistral", R"({"pre_tokenizer":{"prepend_scheme":"last"}})"),
             Contains("\"last\""));
  CHECK_THAT(refusal("mistral", R"({"pre_tokenizer":null})"), Contains("spaces are not replaced"));
  CHECK_THAT(refusal("mistral", R"({"model":{"vocab":{"<0x41>":null}}})"),
             Contains("no byte token for the byte 65"));
  Json split = Json::parse(read_file(fixtures() / "llama3" / "tokenizer.json"))["pre_tokenizer"];
  split["pretokenizers"][0]["pattern"]["Regex"] = "\\w+";
  CHECK_THAT(refusal("llama3", Json{{"pre_tokenizer", split}}.dump()),
             Contains("pre_tokenizer.pretokenizers[0].pattern is \"\\w+\"") &&
                 Contains("Llama 3 and Qwen2"));
  for (const std::string single : {R"([{"SpecialToken":3}])", R"([{"SpecialToken":{"id":3}}])"})
    CHECK_THAT(refusal("llama2", R"({"post_processor":{"single":)" + single + "}}"),
               Contains("post_processor.single names"));
  const TemporaryFolder empty;
  CHECK_THROWS_WITH(read_hugging_face_tokenizer(empty.path()), Contains("tokenizer.json"));
}

}  // namespace kvreplay::testing
