#include "capture/pre_tokenizers.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace {

using Pieces = std::vector<std::string>;

Pieces split(std::string_view name, std::string_view text) {
  for (const auto& pre : kvreplay::pre_tokenizers()) {
    if (pre.name != name) continue;
    Pieces pieces;
    for (std::size_t at = 0; at < text.size();) {
      const auto length = pre.piece(text, at);
      pieces.emplace_back(text.substr(at, length));
      at += length;
    }
    return pieces;
  }
  FAIL("no pre-tokenizer " << name);
  return {};
}

}  // namespace

// Expected pieces follow from the published regular expressions, alternative by alternative.

TEST_CASE("gpt-2 pieces") {
  CHECK(split("gpt-2", "I'll say it's 42nd") ==
        Pieces{"I", "'ll", " say", " it", "'s", " 42", "nd"});
  CHECK(split("gpt-2", "IT'S") == Pieces{"IT", "'", "S"});
  CHECK(split("gpt-2", "a   b") == Pieces{"a", "  ", " b"});
  CHECK(split("gpt-2", "a \tb") == Pieces{"a", " ", "\t", "b"});
  CHECK(split("gpt-2", "a\n\n") == Pieces{"a", "\n\n"});
  CHECK(split("gpt-2", "x+=1;\r\n") == Pieces{"x", "+=", "1", ";", "\r\n"});
  CHECK(split("gpt-2", " 中文 ½") == Pieces{" 中文", " ½"});
  CHECK(split("gpt-2", "e\u0301t") == Pieces{"e", "\u0301", "t"});
}

TEST_CASE("smollm pieces: digits apart before all else") {
  CHECK(split("smollm", "x 12") == Pieces{"x", " ", "1", "2"});
  CHECK(split("smollm", "x  1 y") == Pieces{"x", "  ", "1", " y"});
  CHECK(split("smollm", "٣½²") == Pieces{"٣", "½", "²"});
  CHECK(split("smollm", "it's   a") == Pieces{"it", "'s", "  ", " a"});
}

TEST_CASE("llama-bpe pieces") {
  CHECK(split("llama-bpe", "IT'S 12345") == Pieces{"IT", "'S", " ", "123", "45"});
  CHECK(split("llama-bpe", "it'\u017F") == Pieces{"it", "'\u017F"});
  CHECK(split("llama-bpe", "(word \"x\"") == Pieces{"(word", " \"", "x", "\""});
  CHECK(split("llama-bpe", "a;\n\nb") == Pieces{"a", ";\n\n", "b"});
  CHECK(split("llama-bpe", "a \n\n  b") == Pieces{"a", " \n\n", " ", " b"});
  CHECK(split("llama-bpe", "\tx") == Pieces{"\tx"});
  CHECK(split("llama-bpe", "\nx") == Pieces{"\n", "x"});
  CHECK(split("llama-bpe", "a   ") == Pieces{"a", "   "});
}

TEST_CASE("qwen2 pieces: as llama-bpe with single digits") {
  CHECK(split("qwen2", "IT'S 123") == Pieces{"IT", "'S", " ", "1", "2", "3"});
  CHECK(split("qwen2", "a \n\n  b") == Pieces{"a", " \n\n", " ", " b"});
}

TEST_CASE("bytes that are not UTF-8 are cut as symbols") {
  CHECK(split("gpt-2", "a \xFF\x80!b") == Pieces{"a", " \xFF\x80!", "b"});
  CHECK(split("llama-bpe", "\xE2\x82z\n") == Pieces{"\xE2\x82", "z", "\n"});
  CHECK(split("llama-bpe", "\x82z") == Pieces{"\x82z"});
}
