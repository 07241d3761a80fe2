// Vocabularies written as GGUF files, so that tests go the way that model files go.
#pragma once

#include <catch2/catch.hpp>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/tokenizer.hpp"
#include "gguf_builder.hpp"
#include "paths.hpp"

namespace kvreplay::testing {

/// What goes into the file; a test changes what it is about. Empty optionals are left out.
struct VocabularyBuilder {
  std::optional<std::string> model{};
  std::optional<std::string> pre{};
  std::optional<std::vector<std::string>> tokens{};
  std::optional<std::vector<std::int32_t>> kinds{};
  std::optional<std::vector<std::string>> merges{};
  std::optional<std::vector<float>> scores{};
  std::optional<std::uint32_t> bos{};
  std::optional<std::uint32_t> eos{};
  std::optional<bool> add_bos{};
  std::optional<bool> add_eos{};
  std::optional<bool> add_space_prefix{};

  std::string bytes() const {
    GgufBuilder file;
    const auto key = [](const std::string& name) { return "tokenizer.ggml." + name; };
    const auto add_text = [&](const std::string& name, const std::optional<std::string>& text) {
      if (text) file.value(key(name), gguf_string, gguf_text(*text));
    };
    const auto add_texts = [&](const std::string& name, const auto& texts) {
      if (!texts) return;
      std::string payload;
      for (const auto& text : *texts) payload += gguf_text(text);
      file.array(key(name), gguf_string, texts->size(), payload);
    };
    const auto add_numbers = [&](const std::string& name, std::uint32_t type, const auto& values) {
      if (!values) return;
      std::string payload;
      for (const auto value : *values) payload += raw(value);
      file.array(key(name), type, values->size(), payload);
    };
    const auto add_value = [&](const std::string& name, std::uint32_t type, const auto& value) {
      if (value) file.value(key(name), type, raw(*value));
    };
    add_text("model", model);
    add_text("pre", pre);
    add_texts("tokens", tokens);
    add_numbers("token_type", gguf_i32, kinds);
    add_texts("merges", merges);
    add_numbers("scores", gguf_f32, scores);
    add_value("bos_token_id", gguf_u32, bos);
    add_value("eos_token_id", gguf_u32, eos);
    add_value("add_bos_token", gguf_bool, add_bos);
    add_value("add_eos_token", gguf_bool, add_eos);
    add_value("add_space_prefix", gguf_bool, add_space_prefix);
    return file.bytes();
  }

  std::unique_ptr<Tokenizer> tokenizer() const {
    const TemporaryFolder folder;
    return Tokenizer::from_gguf(GgufFile(write_file(folder / "model.gguf", bytes())));
  }

  /// Adds a token and says its id.
  std::uint32_t add(const std::string& text, int kind = 1, float score = 0) {
    tokens->push_back(text);
    kinds->push_back(kind);
    if (scores) scores->push_back(score);
    return static_cast<std::uint32_t>(tokens->size() - 1);
  }
};

inline std::string utf8(char32_t code) {  // below U+0800
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

/// Tokens 0 to 255 are the bytes in order; no merges.
inline VocabularyBuilder byte_level_bytes() {
  VocabularyBuilder builder{.model = "gpt2", .pre = "gpt-2"};
  builder.tokens.emplace();
  builder.kinds.emplace();
  builder.merges.emplace();
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool itself =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    builder.add(utf8(itself ? byte : next++));
  }
  return builder;
}

/// Tokens <unk>, <s>, </s> and the byte tokens 3 to 258, as SentencePiece lays them out.
inline VocabularyBuilder sentencepiece_bytes() {
  VocabularyBuilder builder{.model = "llama", .bos = 1, .eos = 2};
  builder.tokens.emplace();
  builder.kinds.emplace();
  builder.scores.emplace();
  builder.add("<unk>", 2);
  builder.add("<s>", 3);
  builder.add("</s>", 3);
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char* kDigits = "0123456789ABCDEF";
    builder.add(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", 6);
  }
  return builder;
}

inline std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  REQUIRE(!lines.empty());
  return lines;
}

/// The committed vocabulary of 1,500 tokens (tests/data/tokenizer/README.md).
inline VocabularyBuilder small_bpe(const std::filesystem::path& folder, const std::string& pre) {
  VocabularyBuilder builder{.model = "gpt2", .pre = pre, .bos = 0, .eos = 2};
  builder.tokens.emplace();
  builder.kinds.emplace();
  for (const auto& line : lines_of(folder / "small_bpe.tokens"))
    builder.add(line.substr(2), line.front() - '0');
  builder.merges = lines_of(folder / "small_bpe.merges");
  return builder;
}

}  // namespace kvreplay::testing
