// Text cut into pieces.
#pragma once

#include <string_view>
#include <vector>

namespace kvreplay {

/// Cuts `text` at every `separator`; an empty text is one empty piece.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const auto end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

}  // namespace kvreplay
