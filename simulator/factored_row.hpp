// A row that exists only as the query and the keys that it comes of.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "traces/row_source.hpp"

namespace kvreplay {

/// What query i gives to chosen tokens is computed from their keys and the row's log-sum-exp, which
/// is known: exp(softcap(scale q.k) - lse), O(d) a token. The row's sum is 1.
struct FactoredRow {
  std::uint32_t step = 0;
  const LayerAttention* attention = nullptr;
  std::span<const float> query;  ///< [d]
  const float* keys = nullptr;   ///< [position][d]
  float lse = 0;

  /// Writes the weights of `tokens`, which ascend and reach to `step` at most, into `out` (as many
  /// values) and returns their sum. Within 2e-6 of the row as TraceReader computes it whole.
  double gather(std::span<const std::uint32_t> tokens, std::vector<float>& scratch,
                double* out) const;
};

}  // namespace kvreplay
