// Where the replay takes rows from. It does not know whether they are stored, computed or in
// memory.
#pragma once

#include <span>
#include <vector>

#include "traces/trace.hpp"

namespace kvreplay {

class RowSource {
 public:
  RowSource() = default;
  virtual ~RowSource() = default;
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;

  virtual const TraceInfo& info() const = 0;

  /// The rows of one head as float, laid out by RowLayout: row i begins at
  /// RowLayout::offset(i) - RowLayout::offset(range.first). Of rows that are not recorded
  /// (TraceInfo::sampling) the places are there, but what lies in them means nothing. The span is
  /// valid until `scratch` changes or the source goes; it points into `scratch` unless the rows lie
  /// in memory as they are. Safe to call from many threads, each with its own scratch. Throws
  /// InputError naming file, dataset and row.
  virtual std::span<const float> rows(HeadSlot slot, RowRange range,
                                      std::vector<float>& scratch) const = 0;

  /// What the head's queries, and the keys and values that it reads, were behind the position
  /// embedding: [n][head_size], queries of the recorded rows only. Empty where the source does not
  /// know them.
  virtual std::span<const float> queries(HeadSlot) const { return {}; }
  virtual std::span<const float> keys(HeadSlot) const { return {}; }
  virtual std::span<const float> values(HeadSlot) const { return {}; }
  /// The Euclidean norms of those keys and values, [n]. Empty where the source does not hold them
  /// beside keys and values, from which they can be computed, or in their place.
  virtual std::span<const float> key_norms(HeadSlot) const { return {}; }
  virtual std::span<const float> value_norms(HeadSlot) const { return {}; }
  /// Natural-log log-sum-exp of each recorded row; NaN where unknown. Empty where none is known.
  virtual std::span<const float> log_sum_exp(HeadSlot) const { return {}; }
  /// For those that use it with queries and keys and compute no row whole: compares it with what
  /// they give, at a few rows. Throws InputError as rows() does where it is another.
  virtual void check_log_sum_exp(HeadSlot) const {}
};

}  // namespace kvreplay
