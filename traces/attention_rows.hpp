// Rows from the queries and keys that they come of: what a model attends with, and what a trace
// that stores factors is read with.
#pragma once

#include <cstdint>
#include <span>

#include "traces/trace.hpp"

namespace kvreplay {

/// Queries and keys of one head behind the position embedding, as they enter the product.
struct QueriesAndKeys {
  std::uint32_t head_size = 0;
  LayerAttention attention;        ///< its scale, softcap and window
  const float* queries = nullptr;  ///< [rows][stride], the first head_size values of each
  std::uint64_t query_stride = 0;
  const float* keys = nullptr;  ///< [position][head_size], from position 0 on
};

/// Fills `probabilities` (rows.values() floats, laid out by RowLayout, padding zero) and `lse`
/// (natural log, one a row) for the queries at `rows`, which lie within one 64-row block. Scores,
/// softmax and sums are fp32; the mask is by index, so no score, however negative, reaches a later
/// token or one before the window. Returns false where a row is not finite. The last bits depend on
/// the number of rows and on where `probabilities` lies between two multiples of 64 bytes.
bool attention_rows(const QueriesAndKeys& factors, RowRange rows, std::span<float> probabilities,
                    std::span<float> lse);

}  // namespace kvreplay
