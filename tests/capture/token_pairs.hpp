// Files of texts and the ids that independent tokenizers give them: tests/data/tokenizer/README.md.
#pragma once

#include <sstream>

#include "vocabulary_builder.hpp"

namespace kvreplay::testing {

struct Pair {
  std::string kind;
  std::string text;
  std::vector<std::uint32_t> ids;
};

inline std::string unescaped(const std::string& text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\\') {
      bytes.push_back(static_cast<char>(std::stoi(text.substr(at + 2, 2), nullptr, 16)));
      at += 4;
    } else {
      bytes.push_back(text[at++]);
    }
  }
  return bytes;
}

inline std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line)
    if (c == '\t')
      cells.emplace_back();
    else
      cells.back().push_back(c);
  return cells;
}

/// The texts of a file and the ids in one of its columns.
inline std::vector<Pair> read_pairs(const std::filesystem::path& file, const std::string& column) {
  const auto lines = lines_of(file);
  const auto names = cells_of(lines.front());
  const auto place =
      static_cast<std::size_t>(std::find(names.begin(), names.end(), column) - names.begin());
  REQUIRE(place < names.size());
  std::vector<Pair> pairs;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto cells = cells_of(lines[i]);
    REQUIRE(cells.size() == names.size());
    Pair pair{cells[0], unescaped(cells[1]), {}};
    std::istringstream ids(cells[place]);
    for (std::uint32_t id = 0; ids >> id;) pair.ids.push_back(id);
    pairs.push_back(std::move(pair));
  }
  REQUIRE(pairs.size() > 90);
  return pairs;
}

}  // namespace kvreplay::testing
