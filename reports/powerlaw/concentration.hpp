// How unevenly an amount is spread.
#pragma once

#include <span>

namespace kvreplay::powerlaw {

/// The Gini coefficient of numbers that are not negative: sum of |a - b| over all pairs, over twice
/// n times their sum. 0: all equal; 1 - 1/n: one has all. 0 where the sum is 0.
double gini(std::span<const double> sorted);

/// The share of the sum that the largest `part` of the numbers holds, rounded down to whole
/// numbers, at least one. 0 where the sum is 0.
double top_share(std::span<const double> sorted, double part);

}  // namespace kvreplay::powerlaw
