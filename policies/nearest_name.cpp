#include "policies/nearest_name.hpp"

#include <algorithm>
#include <numeric>

namespace kvreplay {
namespace {

/// Insertions, deletions, replacements and swaps of neighbours that make `b` of `a`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);  // the row above `above`
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = above[j] + (a[i] == b[j] ? 0 : 1);
      row[j + 1] = std::min({replaced, row[j] + 1, above[j + 1] + 1});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j]) {
        row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
      }
    }
  }
  return row.back();
}

/// Of ASCII, as names are.
std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace

std::string nearest_name(std::string_view text, const std::vector<std::string>& names) {
  const std::string typed = lower_case(text);
  // One slip, or one in three letters: more of them make any short name of any other.
  const std::size_t most = std::max<std::size_t>(1, text.size() / 3);
  const std::string* nearest = nullptr;
  std::size_t least = most + 1;
  for (const auto& name : names) {
    const std::size_t distance = edit_distance(typed, lower_case(name));
    if (distance < least && distance < name.size()) {
      least = distance;
      nearest = &name;
    }
  }
  if (nearest != nullptr) return *nearest;
  constexpr std::size_t kTelling = 3;  // letters
  if (text.size() < kTelling) return {};
  const auto part = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return lower_case(name).find(typed) != std::string::npos;
  });
  return part == names.end() ? std::string() : *part;
}

}  // namespace kvreplay
