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

bool is_worse(double error, double worst) {
  return !std::isnan(worst) && !(error <= worst);
}

double encode_rows(Encoding encoding, RowRange range, std::span<const float> rows,
                   std::span<std::byte> encoded, const RowSampling& sampling) {
  thread_local std::vector<float> row;
  double worst = 0;
  std::size_t begin = 0;
  for (std::uint32_t i = sampling.next(range.first); i < range.last; i += sampling.every) {
    row.resize(RowLayout::padded_length(i));
    const auto bytes = encoded.subspan(begin, row.size() * bytes_per_value(encoding));
    const auto from = RowLayout::offset(i) - RowLayout::offset(range.first);
    encode(encoding, rows.subspan(from, row.size()), bytes);
    decode(encoding, bytes, row);
    begin += bytes.size();
    const double error = std::abs(sum(std::span(row).first(i + 1)) - 1);
    if (is_worse(error, worst)) worst = error;
  }
  return worst;
}

double row_sum_error(RowRange range, std::span<const float> rows, const RowSampling& sampling) {
  double worst = 0;
  for (std::uint32_t i = sampling.next(range.first); i < range.last; i += sampling.every) {
    const auto begin = RowLayout::offset(i) - RowLayout::offset(range.first);
    const double error = std::abs(sum(rows.subspan(begin, i + 1)) - 1);
    if (is_worse(error, worst)) worst = error;
  }
  return worst;
}

void RowRecorder::write(HeadSlot slot, RowRange range, std::span<const float> rows,
                        std::span<const float> lse) {
  encoded_.resize(rows.size() * bytes_per_value(encoding_));
  const double error = encode_rows(encoding_, range, rows, encoded_);
  writer_.write_rows(slot, range, encoded_, lse);
  if (is_worse(error, row_sum_error_)) row_sum_error_ = error;
}

}  // namespace kvreplay
