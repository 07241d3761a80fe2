#include "traces/dump.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <string>
#include <vector>

#include "traces/npy.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

void append(std::string& text, float value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  text.append(digits.data(), end);
}

}  // namespace

DumpFormat parse_dump_format(std::string_view text) {
  if (text == "text") return DumpFormat::text;
  if (text == "csv") return DumpFormat::csv;
  if (text == "npy") return DumpFormat::npy;
  throw std::invalid_argument("unknown format " + in_quotes(text) + "; valid are text, csv, npy");
}

void dump(const RowSource& source, HeadSlot slot, RowRange range, DumpFormat format,
          std::ostream& out, const RunControl& control) {
  const TraceInfo& info = source.info();
  check_request(info, slot, range);
  const RowSampling& sampling = info.sampling;
  const std::uint64_t count = sampling.count(range);
  const std::string head =
      std::to_string(info.layers[slot.layer]) + "," + std::to_string(info.heads[slot.head]) + ",";
  if (format == DumpFormat::csv) out << "layer,head,row,key,probability\n";
  if (format == DumpFormat::npy)
    out << npy::float32_header(std::array<std::uint64_t, 2>{count, range.last});
  std::vector<float> scratch;
  std::vector<float> dense(format == DumpFormat::npy ? range.last : 0);
  std::string text;
  RowRange block{range.first, range.first};
  std::span<const float> rows;
  std::uint64_t done = 0;
  for (std::uint32_t i = sampling.next(range.first); i < range.last && out; i += sampling.every) {
    control.throw_if_stopped();
    if (i >= block.last) {
      const auto end = static_cast<std::uint32_t>((i / RowLayout::kBlock + 1) * RowLayout::kBlock);
      block = {i, std::min(end, range.last)};
      rows = source.rows(slot, block, scratch);
    }
    const auto row = rows.subspan(RowLayout::offset(i) - RowLayout::offset(block.first), i + 1);
    text.clear();
    switch (format) {
      case DumpFormat::text:
        for (const float p : row) {
          append(text, p);
          text += ' ';
        }
        text.back() = '\n';
        break;
      case DumpFormat::csv:
        for (std::size_t key = 0; key < row.size(); ++key) {
          text += head + std::to_string(i) + "," + std::to_string(key) + ",";
          append(text, row[key]);
          text += '\n';
        }
        break;
      case DumpFormat::npy:
        std::copy(row.begin(), row.end(), dense.begin());
        text.assign(reinterpret_cast<const char*>(dense.data()), dense.size() * sizeof(float));
        break;
    }
    out << text;
    control.report("rows", ++done, count);
  }
}

}  // namespace kvreplay
