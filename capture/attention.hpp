// Causal attention of a block of queries of one head; its probabilities are a trace's rows.
#pragma once

#include <cstdint>
#include <span>

#include "traces/attention_rows.hpp"

namespace kvreplay {

/// One head's block of queries.
struct AttentionBlock {
  RowRange rows;  ///< positions of the queries, within one 64-row block of RowLayout
  QueriesAndKeys factors;
  const float* values = nullptr;  ///< [position][head_size], from position 0 on
  float* output = nullptr;        ///< [rows][stride]
  std::uint64_t output_stride = 0;
};

/// As attention_rows(); also computes the block's output.
bool attend(const AttentionBlock& block, std::span<float> probabilities, std::span<float> lse);

}  // namespace kvreplay
