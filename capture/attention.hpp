// Causal attention of a block of queries of one head; its probabilities are a trace's rows.
#pragma once

#include <cstdint>
#include <span>

#include "traces/trace.hpp"

namespace kvreplay {

/// One head's block of queries. `keys` and `values` are [position][head_size], from position 0 on.
struct AttentionBlock {
  RowRange rows;  ///< positions of the queries, within one 64-row block of RowLayout
  std::uint32_t head_size = 0;
  float scale = 0;
  const float* queries = nullptr;  ///< [rows][stride], the first head_size values of each
  std::uint64_t query_stride = 0;
  const float* keys = nullptr;
  const float* values = nullptr;
  float* output = nullptr;  ///< [rows][stride]
  std::uint64_t output_stride = 0;
};

/// Fills `probabilities` (rows.values() floats, laid out by RowLayout, padding zero), `lse`
/// (natural log, one a row) and the block's output. Scores, softmax and sums are fp32; the mask is
/// by index, so no score, however negative, reaches a later token. Returns false where a score is
/// not finite.
bool attend(const AttentionBlock& block, std::span<float> probabilities, std::span<float> lse);

}  // namespace kvreplay
