// Conversions between float rows and their stored form. Vectorised; no allocation.
#pragma once

#include <cstddef>
#include <span>

#include "traces/trace.hpp"

namespace kvreplay {

/// `out` holds values.size() * bytes_per_value(encoding) bytes. fp16 rounds to nearest even.
/// u16log: relative error below 1.7e-4 for 2^-32 < p <= 1; smaller values and all that is no
/// positive number become 0, larger ones 1.
/// Both throw std::invalid_argument if the sizes do not match.
void encode(Encoding encoding, std::span<const float> values, std::span<std::byte> out);
void decode(Encoding encoding, std::span<const std::byte> stored, std::span<float> out);

}  // namespace kvreplay
