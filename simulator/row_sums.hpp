// Sums over rows. The order of addition is fixed by the position in the list of addends alone, so a
// kept set that holds every token sums to exactly what the whole row sums to, and results do not
// depend on the machine's vector width.
#pragma once

#include <cstdint>
#include <span>

namespace kvreplay {

/// The sum of a row; NaN where a weight is negative or not finite.
double row_sum(std::span<const float> row);

/// Copies a row into `out` (as many values) and returns its sum.
double copy_row(std::span<const float> row, double* out);

/// Copies the weights of `tokens` into `out` (as many values) and returns their sum.
double gather_row(const float* row, std::span<const std::uint32_t> tokens, double* out);

}  // namespace kvreplay
