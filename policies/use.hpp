// When a row counts as a use of a token.
#pragma once

#include <cstddef>

namespace kvreplay {

/// A weight of at least the even share among so many tokens, 1 / tokens; up to rounding, which
/// must not decide where weights are even.
inline bool is_use(double weight, std::size_t tokens) {
  return weight * static_cast<double>(tokens) >= 1 - 1e-9;
}

}  // namespace kvreplay
