// What the slow references have in common: rows, and numbers in half precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace kvreplay::testing {

/// [query][key]
using Matrix = std::vector<std::vector<double>>;
/// [head][query][key]
using Heads = std::vector<Matrix>;

inline double at(const Matrix& rows, int i, int j) {
  return rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
}

/// The nearest number of 11 significant bits, a multiple of 2^-24, by a division and nearbyint.
inline double half(double x) {
  if (x == 0) return 0;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(x), -14) - 10);
  const double rounded = std::nearbyint(x / unit) * unit;
  return rounded >= 65520 ? HUGE_VAL : rounded;
}

}  // namespace kvreplay::testing
