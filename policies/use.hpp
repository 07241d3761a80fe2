// When a row counts as a use of a token.
#pragma once

#include <cstddef>

namespace kvreplay {

/// A weight of at least the even share of all that the row sees, 1 / seen; up to rounding, which
/// must not decide where weights are even.
inline bool is_use(double weight, std::size_t seen) {
  return weight * static_cast<double>(seen) >= 1 - 1e-9;
}

}  // namespace kvreplay
