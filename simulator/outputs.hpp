// What a query mixes from the values of the tokens that it sees.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvreplay {

/// Fills `output` (d numbers) with the sum of weights[s] times the value of tokens[s], divided by
/// `sum`; zeros where that is 0. `values` is [n][d]. Added in the order of the tokens.
void mix_values(std::span<const double> weights, std::span<const std::uint32_t> tokens,
                std::span<const float> values, double sum, std::span<double> output);

/// The same over a whole row: token s is s.
void mix_values(std::span<const float> weights, std::span<const float> values, double sum,
                std::span<double> output);

/// |mixed - output| / |output|; 0 where both are 0, 1 where only the output is.
double output_error(std::span<const double> mixed, std::span<const double> output);

}  // namespace kvreplay
