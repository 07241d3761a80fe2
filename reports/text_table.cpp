#include "reports/text_table.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace kvreplay {
namespace {

std::size_t width_of(const std::string& text) {
  // Bytes that continue a UTF-8 character take no room.
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

std::string TextTable::text(const std::string& indent) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line = indent;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width_of(row[i]), ' ');
      const bool left = std::find(left_.begin(), left_.end(), i) != left_.end();
      if (i > 0) line += "  ";
      line += left ? row[i] + padding : padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (&row == &rows_.front()) {
      text += indent;
      for (std::size_t i = 0; i < widths.size(); ++i) {
        text += (i > 0 ? "  " : "") + std::string(widths[i], '-');
      }
      text += "\n";
    }
  }
  return text;
}

std::string wrapped(const std::string& start, const std::string& text) {
  constexpr std::size_t kWidth = 100;
  std::string lines;
  std::string line = start;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(' ', at), text.size());
    if (line.size() > start.size() && line.size() + 1 + end - at > kWidth) {
      lines += line + "\n";
      line.assign(start.size(), ' ');
    }
    line += (line.size() > start.size() ? " " : "") + text.substr(at, end - at);
    at = end + 1;
  }
  return lines + line + "\n";
}

std::string fixed(double value, int digits) {
  const int length = std::snprintf(nullptr, 0, "%.*f", digits, value);
  std::string text(static_cast<std::size_t>(length), '\0');
  std::snprintf(text.data(), text.size() + 1, "%.*f", digits, value);
  return text;
}

double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return std::strtod(text, nullptr);
}

std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

std::string counted(std::uint64_t count, const std::string& one, const std::string& many) {
  return grouped(count) + " " + (count == 1 ? one : many.empty() ? one + "s" : many);
}

}  // namespace kvreplay
