// Fields of CSV files.
#pragma once

#include <array>
#include <charconv>
#include <string>
#include <string_view>

namespace kvreplay::csv {

/// In the fewest digits that read back exactly.
template <class Number>
void append_number(std::string& line, Number number) {
  std::array<char, 32> buffer;
  line.append(buffer.data(),
              std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr);
}

/// By RFC 4180: quoted where it holds a comma, a quote or a line break.
inline void append_text(std::string& line, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    line += text;
    return;
  }
  line += '"';
  for (const char c : text) {
    if (c == '"') line += '"';
    line += c;
  }
  line += '"';
}

}  // namespace kvreplay::csv
