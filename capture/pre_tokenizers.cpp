#include "capture/pre_tokenizers.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "capture/unicode.hpp"

namespace kvreplay {
namespace {

/// Past the run of characters of one class that starts at text[at].
std::size_t run_end(std::string_view text, std::size_t at, CharacterClass kind,
                    std::size_t longest = std::numeric_limits<std::size_t>::max()) {
  for (std::size_t count = 0; count < longest && at < text.size(); ++count) {
    const auto character = character_at(text, at);
    if (character.kind != kind) break;
    at += character.length;
  }
  return at;
}

struct SpaceRun {
  std::size_t end;
  std::size_t last;           ///< start of its last character
  std::size_t after_newline;  ///< past its last \r or \n, or its start
};

SpaceRun space_run(std::string_view text, std::size_t at) {
  SpaceRun run{at, at, at};
  while (run.end < text.size()) {
    const auto character = character_at(text, run.end);
    if (character.kind != CharacterClass::space) break;
    run.last = run.end;
    run.end += character.length;
    if (character.code == U'\n' || character.code == U'\r') run.after_newline = run.end;
  }
  return run;
}

enum class Case : std::uint8_t { lower, any };

/// Bytes of 's 't 're 've 'm 'll 'd at text[at], or 0. In any case, ſ (U+017F) is an s too.
std::size_t contraction(std::string_view text, std::size_t at, Case letters) {
  if (text[at] != '\'') return 0;
  const auto rest = text.substr(at + 1);
  const auto starts_with = [&](std::string_view ending) {
    if (rest.size() < ending.size()) return false;
    return std::equal(ending.begin(), ending.end(), rest.begin(), [&](char wanted, char found) {
      if (letters == Case::any && found >= 'A' && found <= 'Z')
        found = static_cast<char>(found - 'A' + 'a');
      return wanted == found;
    });
  };
  for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"})
    if (starts_with(ending)) return 1 + ending.size();
  constexpr std::string_view kLongS = "\u017F";
  if (letters == Case::any && rest.starts_with(kLongS)) return 1 + kLongS.size();
  return 0;
}

/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// With `digits_apart` every \p{N} is cut out as a piece first and the rest of the text between
/// them is split so.
template <bool digits_apart>
std::size_t gpt2_piece(std::string_view text, std::size_t at) {
  const auto apart = [&](const Character& character) {
    return digits_apart && character.kind == CharacterClass::number;
  };
  if (const auto first = character_at(text, at); apart(first)) return first.length;
  if (const auto length = contraction(text, at, Case::lower); length > 0) return length;
  const std::size_t start = at + (text[at] == ' ' ? 1 : 0);
  if (start < text.size()) {
    const auto character = character_at(text, start);
    if (character.kind != CharacterClass::space && !apart(character))
      return run_end(text, start, character.kind) - at;
  }
  const auto run = space_run(text, at);
  const bool followed = run.end < text.size() && !apart(character_at(text, run.end));
  return (followed && run.last > at ? run.last : run.end) - at;
}

/// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|
/// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <std::size_t digits>
std::size_t llama3_piece(std::string_view text, std::size_t at) {
  if (const auto length = contraction(text, at, Case::any); length > 0) return length;
  const auto first = character_at(text, at);
  if (first.kind == CharacterClass::number)
    return run_end(text, at, CharacterClass::number, digits) - at;
  if (first.kind == CharacterClass::letter) return run_end(text, at, CharacterClass::letter) - at;
  if (first.code != U'\r' && first.code != U'\n') {
    const auto second = at + first.length;
    const auto end = run_end(text, second, CharacterClass::letter);
    if (end > second) return end - at;
  }
  const std::size_t start = at + (text[at] == ' ' ? 1 : 0);
  if (auto end = run_end(text, start, CharacterClass::other); end > start) {
    while (end < text.size() && (text[end] == '\r' || text[end] == '\n')) ++end;
    return end - at;
  }
  const auto run = space_run(text, at);
  if (run.after_newline > at) return run.after_newline - at;
  const bool followed = run.end < text.size();
  return (followed && run.last > at ? run.last : run.end) - at;
}

constexpr std::array<PreTokenizer, 4> kKnown{{
    {.name = "gpt-2",
     .piece = gpt2_piece<false>,
     .add_bos = false,
     .whole_first = false,
     .to_nfc = false},
    {.name = "smollm",
     .piece = gpt2_piece<true>,
     .add_bos = false,
     .whole_first = false,
     .to_nfc = false},
    {.name = "llama-bpe",
     .piece = llama3_piece<3>,
     .add_bos = true,
     .whole_first = true,
     .to_nfc = false},
    // Qwen's published tokenizer normalises; llama.cpp does not, so ids differ there on text that
    // is not NFC.
    {.name = "qwen2",
     .piece = llama3_piece<1>,
     .add_bos = false,
     .whole_first = false,
     .to_nfc = true},
}};

}  // namespace

std::span<const PreTokenizer> pre_tokenizers() {
  return kKnown;
}

}  // namespace kvreplay
