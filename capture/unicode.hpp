// Characters of UTF-8 text and the Unicode classes that pre-tokenizers split by, from utf8proc
// (Unicode 15).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvreplay {

/// \p{L}, \p{N}, \s (White_Space) of regular expressions, and everything else.
enum class CharacterClass : std::uint8_t { letter, number, space, other };

struct Character {
  char32_t code;
  CharacterClass kind;
  std::size_t length;  ///< bytes
};

/// The character that starts at text[at], at < text.size(). A byte that is not part of well-formed
/// UTF-8 is a character of its own, as U+FFFD would be: code U+FFFD, other, length 1.
Character character_at(std::string_view text, std::size_t at);

/// Normalization Form C; bytes that are not part of well-formed UTF-8 stay as they are.
std::string to_nfc(std::string_view text);

}  // namespace kvreplay
