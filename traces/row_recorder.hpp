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
};

/// Encodes what `sampling` holds of rows `range` laid out by RowLayout, one row after the other;
/// returns the largest abs(sum of a row - 1) of what a reader will decode, NaN if any is.
double encode_rows(Encoding encoding, RowRange range, std::span<const float> rows,
                   std::span<std::byte> encoded, const RowSampling& sampling = {});

/// Largest abs(sum of a row - 1) of what `sampling` holds of rows `range` laid out by RowLayout,
/// NaN if any is.
double row_sum_error(RowRange range, std::span<const float> rows, const RowSampling& sampling = {});

/// True if `error` is worse than `worst`, where NaN is the worst.
bool is_worse(double error, double worst);

/// The sum of `values` in double, in an order that does not depend on the machine.
double sum(std::span<const float> values);

}  // namespace kvreplay
