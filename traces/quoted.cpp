#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80;
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string shown;
  const auto escape = [&](unsigned char byte) {
    shown += "\\x";
    shown += kDigits[byte >> 4];
    shown += kDigits[byte & 15U];
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const auto next = static_cast<unsigned char>(at + 1 < text.size() ? text[at + 1] : 0);
    if (byte == '\n') {
      shown += "\\n";
    } else if (byte == '\t') {
      shown += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      escape(byte);
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {  // U+0080 to U+009F, controls too
      escape(next);
      ++at;
    } else {
      shown += text[at];
    }
  }
  return shown;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  if (text.size() <= kLongest) return "\"" + printable(text) + "\"";
  std::size_t end = kLongest;
  while (end > kLongest - 4 && continues(text[end])) --end;  // not in the middle of a character
  return "\"" + printable(text.substr(0, end)) + "...\"";
}

}  // namespace kvreplay
