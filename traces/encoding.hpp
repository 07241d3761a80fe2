// Conversions between float rows and their stored form. Vectorised; no allocation.
#pragma once

#include <cstddef>
#include <span>

#include "traces/trace.hpp"

namespace kvreplay {

/// `out` holds values.size() * bytes_per_value(encoding) bytes. fp16 rounds to nearest even.
void encode(Encoding encoding, std::span<const float> values, std::span<std::byte> out);
void decode(Encoding encoding, std::span<const std::byte> stored, std::span<float> out);

}  // namespace kvreplay
