// Tables as plain text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvreplay {

/// Columns as wide as their widest entry, two spaces apart; the first is left-aligned, the others
/// are right-aligned. Entries are UTF-8 and hold no line breaks.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  /// Columns that align to the left besides the first.
  void align_left(std::size_t column) { left_.push_back(column); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// Each line begins with `indent`; the header is underlined.
  std::string text(const std::string& indent = "") const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> left_ = {0};
};

/// `text` in lines of at most 100 columns, broken at spaces, the first behind `start` and the
/// others as far in.
std::string wrapped(const std::string& start, const std::string& text);

/// "0.0312": a fixed number of digits after the point.
std::string fixed(double value, int digits);
/// To five digits: enough for a colour and a tooltip, and it keeps pages small.
double rounded(double value);
/// "1,088": thousands apart.
std::string grouped(std::uint64_t value);
/// "1 head", "1,088 heads"; `many` where it is not `one` with an s.
std::string counted(std::uint64_t count, const std::string& one, const std::string& many = "");

}  // namespace kvreplay
