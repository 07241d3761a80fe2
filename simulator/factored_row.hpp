// A row that exists only as the query and the keys that it comes of.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "traces/row_source.hpp"

namespace kvreplay {

/// What query i gives to chosen tokens is computed from their keys and the row's log-sum-exp:
/// exp(softcap(scale q.k) - lse), O(d) a token. The row's sum is 1. Within 2e-6 of the row as
/// TraceReader computes it whole.
class FactoredRow {
 public:
  /// The query of `step`; `keys` is [position][d]. Where `lse` is unknown, or too large for a float
  /// to hold it as exactly as that, all scores of the row are computed to know better.
  FactoredRow(std::uint32_t step, const LayerAttention& attention, std::span<const float> query,
              const float* keys, float lse);

  /// Writes the weights of `tokens`, which ascend and reach to the step at most, into `out` (as
  /// many values) and returns their sum: NaN where a query, a key or all scores are not finite.
  double gather(std::span<const std::uint32_t> tokens, std::vector<float>& scratch,
                double* out) const;

 private:
  float score(std::uint32_t token) const;
  std::uint32_t first_in_window() const;

  std::uint32_t step_;
  const LayerAttention* attention_;
  std::span<const float> query_;
  const float* keys_;
  float largest_ = 0;  // taken off every score, as log_sum_ is
  float log_sum_ = 0;
};

}  // namespace kvreplay
