#include "traces/row_recorder.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "traces/encoding.hpp"

namespace kvreplay {

double sum(std::span<const float> values) {
  // Eight independent sums: the order is fixed and yet vector units can be used.
  std::array<double, 8> lanes{};
  std::size_t i = 0;
  for (; i + 8 <= values.size(); i += 8)
    for (std::size_t lane = 0; lane < 8; ++lane) lanes[lane] += values[i + lane];
  for (; i < values.size(); ++i) lanes[i % 8] += values[i];
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

void RowRecorder::write(HeadSlot slot, RowRange range, std::span<const float> rows,
                        std::span<const float> lse) {
  encoded_.resize(rows.size() * bytes_per_value(encoding_));
  decoded_.resize(rows.size());
  encode(encoding_, rows, encoded_);
  decode(encoding_, encoded_, decoded_);
  writer_.write_rows(slot, range, encoded_, lse);
  for (std::uint32_t row = range.first; row < range.last; ++row) {
    const auto begin = RowLayout::offset(row) - RowLayout::offset(range.first);
    const double error = std::abs(sum(std::span(decoded_).subspan(begin, row + 1)) - 1);
    if (!(error <= row_sum_error_)) row_sum_error_ = error;  // NaN stays
  }
}

}  // namespace kvreplay
