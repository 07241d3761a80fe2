// Encodes float rows on their way into a trace.
#pragma once

#include <span>
#include <vector>

#include "traces/trace_writer.hpp"

namespace kvreplay {

class RowRecorder {
 public:
  RowRecorder(TraceWriter& writer, Encoding encoding) : writer_(writer), encoding_(encoding) {}

  /// As TraceWriter::write_rows(), from float rows laid out by RowLayout.
  void write(HeadSlot slot, RowRange range, std::span<const float> rows,
             std::span<const float> lse);
  /// Largest abs(sum of a row - 1) so far, of the rows as a reader will decode them.
  double row_sum_error() const { return row_sum_error_; }

 private:
  TraceWriter& writer_;
  Encoding encoding_;
  double row_sum_error_ = 0;
  std::vector<std::byte> encoded_;
  std::vector<float> decoded_;
};

/// The sum of `values` in double, in an order that does not depend on the machine.
double sum(std::span<const float> values);

}  // namespace kvreplay
