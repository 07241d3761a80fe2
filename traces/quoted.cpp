#include "traces/quoted.hpp"

#include <algorithm>

namespace kvreplay {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

bool continues(unsigned char byte) {
  return (byte & 0xC0U) == 0x80;
}

/// Bytes of the character that `text` begins with; 0: it begins with no UTF-8 (RFC 3629).
std::size_t character_size(std::string_view text) {
  const auto first = byte_at(text, 0);
  const auto second = byte_at(text, 1);
  if (first < 0x80) return 1;
  const std::size_t size = first < 0xC2   ? 0
                           : first < 0xE0 ? 2
                           : first < 0xF0 ? 3
                           : first < 0xF5 ? 4
                                          : 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues(byte_at(text, i))) return 0;
  }
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool beyond = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : size;
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string shown;
  shown.reserve(text.size());
  const auto escape = [&](unsigned char byte) {
    shown += "\\x";
    shown += kDigits[byte >> 4];
    shown += kDigits[byte & 15U];
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = byte_at(text, at);
    const std::size_t size = character_size(text.substr(at));
    if (byte == '\n') {
      shown += "\\n";
    } else if (byte == '\t') {
      shown += "\\t";
    } else if (size == 0 || byte < 0x20 || byte == 0x7F) {
      escape(byte);
    } else if (byte == 0xC2 && byte_at(text, at + 1) < 0xA0) {  // U+0080 to U+009F, controls too
      escape(byte_at(text, at + 1));
    } else {
      shown += text.substr(at, size);
    }
    at += std::max<std::size_t>(size, 1);
  }
  return shown;
}

std::string printable_lines(std::string_view text) {
  std::string shown;
  for (;;) {
    const auto end = text.find_first_of("\n\t");
    shown += printable(text.substr(0, end));
    if (end == std::string_view::npos) return shown;
    shown += text[end];
    text.remove_prefix(end + 1);
  }
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  if (text.size() <= kLongest) return "\"" + printable(text) + "\"";
  std::size_t end = kLongest;
  // Not in the middle of a character.
  while (end > kLongest - 4 && continues(byte_at(text, end))) --end;
  return "\"" + printable(text.substr(0, end)) + "...\"";
}

}  // namespace kvreplay
