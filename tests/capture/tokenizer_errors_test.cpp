// Vocabularies that make no sense are refused with the file, the key and the place.
#include <catch2/catch.hpp>
#include <cmath>

#include "traces/errors.hpp"
#include "vocabulary_builder.hpp"

using kvreplay::testing::byte_level_bytes;
using kvreplay::testing::sentencepiece_bytes;
using kvreplay::testing::VocabularyBuilder;

namespace {

void check_refused(const VocabularyBuilder& builder, const std::string& why) {
  CHECK_THROWS_MATCHES(builder.tokenizer(), kvreplay::InputError,
                       Catch::Matchers::Predicate<kvreplay::InputError>(
                           [&](const kvreplay::InputError& error) {
                             const std::string what = error.what();
                             UNSCOPED_INFO(what);
                             return what.find("model.gguf: ") != std::string::npos &&
                                    what.find(why) != std::string::npos;
                           },
                           "names the file and says: " + why));
}

}  // namespace

TEST_CASE("unknown models and pre-tokenizers are named, with the known ones") {
  auto builder = byte_level_bytes();
  builder.model = "t5";
  check_refused(builder, "tokenizer.ggml.model \"t5\" is not supported; known are gpt2");
  builder.model.reset();
  check_refused(builder, "tokenizer.ggml.model");
  builder = byte_level_bytes();
  builder.pre = "deepseek-llm";
  check_refused(builder,
                "tokenizer.ggml.pre \"deepseek-llm\" is not supported; known are gpt-2, smollm, "
                "llama-bpe, qwen2");
  builder.pre.reset();
  check_refused(builder, "tokenizer.ggml.pre");
}

TEST_CASE("missing keys") {
  auto builder = byte_level_bytes();
  builder.tokens.reset();
  check_refused(builder, "tokenizer.ggml.tokens is missing");
  builder = byte_level_bytes();
  builder.kinds.reset();
  check_refused(builder, "tokenizer.ggml.token_type is missing");
  builder = byte_level_bytes();
  builder.merges.reset();
  check_refused(builder, "tokenizer.ggml.merges is missing");
  builder = sentencepiece_bytes();
  builder.scores.reset();
  check_refused(builder, "tokenizer.ggml.scores is missing");
  builder = sentencepiece_bytes();
  builder.bos.reset();
  check_refused(builder, "tokenizer.ggml.bos_token_id is missing");
  builder = byte_level_bytes();
  builder.add_eos = true;
  check_refused(builder, "tokenizer.ggml.eos_token_id is missing");
}

TEST_CASE("sizes and numbers that do not fit") {
  auto builder = byte_level_bytes();
  builder.tokens->clear();
  builder.kinds->clear();
  check_refused(builder, "tokenizer.ggml.tokens is empty");
  builder = byte_level_bytes();
  builder.kinds->pop_back();
  check_refused(builder, "tokenizer.ggml.token_type has 255 entries for 256 tokens");
  builder = byte_level_bytes();
  builder.kinds->at(9) = 7;
  check_refused(builder, "tokenizer.ggml.token_type[9] is 7");
  builder = byte_level_bytes();
  builder.bos = 256;
  check_refused(builder, "tokenizer.ggml.bos_token_id is 256 but the vocabulary has 256 tokens");
  builder = sentencepiece_bytes();
  builder.scores->push_back(0);
  check_refused(builder, "tokenizer.ggml.scores has 260 entries for 259 tokens");
  builder = sentencepiece_bytes();
  builder.scores->at(5) = std::nanf("");
  check_refused(builder, "tokenizer.ggml.scores[5] is not a number");
}

TEST_CASE("tokens that do not fit") {
  auto builder = byte_level_bytes();
  builder.add("A");
  check_refused(builder, "tokenizer.ggml.tokens[256] repeats token 65");
  builder = byte_level_bytes();
  builder.tokens->at('Q') = "QQ";
  check_refused(builder, "tokenizer.ggml.tokens has no token for the byte 81 ('Q')");
  builder = sentencepiece_bytes();
  builder.kinds->at(3 + 65) = 1;
  check_refused(builder, "tokenizer.ggml.tokens has no byte token for the byte 65");
  builder = sentencepiece_bytes();
  builder.add("<0xG0>", 6);
  check_refused(builder, "tokenizer.ggml.tokens[259] \"<0xG0>\"");
  builder = sentencepiece_bytes();
  builder.add("<0x0a>", 6);
  check_refused(builder, "tokenizer.ggml.tokens[259] \"<0x0a>\" is a second token for its byte");
}

TEST_CASE("merges that do not fit") {
  auto builder = byte_level_bytes();
  builder.add("ab");
  const auto check_merge = [&](const std::string& merge, const std::string& why) {
    builder.merges = {"a b", merge};
    check_refused(builder, "tokenizer.ggml.merges[1] \"" + merge + "\" " + why);
  };
  check_merge("", "is not two tokens with one space between them");
  check_merge("ab", "is not two tokens with one space between them");
  check_merge("a b c", "is not two tokens with one space between them");
  check_merge(" b", "needs \"\", which is no normal token");
  check_merge("a ", "needs \"\", which is no normal token");
  check_merge("ab c", "needs \"abc\", which is no normal token");
  check_merge("zz c", "needs \"zz\", which is no normal token");
  check_merge("c zz", "needs \"zz\", which is no normal token");
  check_merge("a b", "repeats an earlier one");
}
