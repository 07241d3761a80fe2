#include "simulator/json_text.hpp"

namespace kvreplay {

std::string without_controls(const std::string& dumped) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(dumped.size());
  for (std::size_t at = 0; at < dumped.size(); ++at) {
    auto byte = static_cast<unsigned char>(dumped[at]);
    const auto next = at + 1 < dumped.size() ? static_cast<unsigned char>(dumped[at + 1]) : 0U;
    const bool c1 = byte == 0xC2 && next >= 0x80 && next < 0xA0;  // in UTF-8
    if (!c1 && byte != 0x7F) {
      text += dumped[at];
      continue;
    }
    if (c1) byte = static_cast<unsigned char>(dumped[++at]);
    text += "\\u00";
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

}  // namespace kvreplay
