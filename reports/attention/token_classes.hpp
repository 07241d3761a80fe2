// Kinds of tokens: by their place, by what their texts are, and by the texts themselves.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvreplay::attention {

/// Every token is of the first of these that fits. Letters (with marks), numbers, punctuation (with
/// symbols) and white space are the Unicode categories L and M, N, P and S, Z and tabs and line
/// breaks.
enum class TokenClass : std::uint8_t {
  first,              ///< token 0
  newline,            ///< a line break, no letter or number
  punctuation,        ///< punctuation, no letter or number
  sentence_start,     ///< the first token with a letter or number behind an end of a sentence
  number,             ///< a number, no letter
  word_start,         ///< a letter, behind white space or what is neither letter nor number
  word_continuation,  ///< a letter, joined to the letter or number before
  space,              ///< white space only
  other               ///< nothing of all this: parts of characters, control characters, empty
};
constexpr std::size_t kTokenClasses = 9;

/// "first token", "sentence start"
std::string_view name(TokenClass of);

/// By token, of the texts (UTF-8) that tokens have one after the other. A sentence ends with a line
/// break, with one of U+3002, U+FF01, U+FF1F, or with one of . ! ? and U+2026 before white space,
/// closing brackets and quotes between them allowed. So it does behind abbreviations too.
std::vector<TokenClass> classify_tokens(std::span<const std::string> pieces);

/// Tokens in groups; every token is in one.
struct TokenGroups {
  std::string kind;                      ///< "position", "class", "text"
  std::vector<std::string> names;        ///< of the groups
  std::vector<std::uint32_t> of_tokens;  ///< the group of every token
};

/// The first `alone` tokens by themselves, "0", "1", ..., and "rest".
TokenGroups by_position(std::uint32_t tokens, std::uint32_t alone);
/// All classes, those that no token is of too.
TokenGroups by_class(std::span<const std::string> pieces);
/// By text, in the order in which texts come up first. Names are the bytes of the texts.
TokenGroups by_text(std::span<const std::string> pieces);

}  // namespace kvreplay::attention
