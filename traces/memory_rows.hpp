// A row source in memory, for tests and small inputs.
#pragma once

#include <span>
#include <vector>

#include "traces/row_source.hpp"

namespace kvreplay {

/// All heads of all layers of a model with these sizes, full attention, everything else at its
/// default.
TraceInfo plain_info(std::uint32_t tokens, std::uint32_t layers = 1, std::uint32_t heads = 1,
                     std::uint32_t kv_heads = 1);

class MemoryRows final : public RowSource {
 public:
  /// `dense` is [recorded layers, recorded heads, n, n] in C order; entry [.., i, j] with j <= i is
  /// what query i gives key j, entries with j > i are ignored. Values are rounded to float. Throws
  /// std::invalid_argument if `info` is inconsistent or the size does not match.
  MemoryRows(TraceInfo info, std::span<const double> dense);
  MemoryRows(TraceInfo info, std::span<const float> dense);

  const TraceInfo& info() const override { return info_; }
  std::span<const float> rows(HeadSlot slot, RowRange range,
                              std::vector<float>& scratch) const override;

 private:
  template <class Real>
  void pack(std::span<const Real> dense);

  TraceInfo info_;
  std::vector<float> packed_;
};

}  // namespace kvreplay
