// The smallest weight that a computed row can hold.
#pragma once

#include <limits>

namespace kvreplay {

/// Vectorised, exp() does not fall below 1e-38, however small its argument: what is taken off
/// weights makes that 0 and is lost in the rounding of all else.
constexpr float kLeastWeight = std::numeric_limits<float>::min();

}  // namespace kvreplay
