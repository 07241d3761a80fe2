// The vectors that callers of the C API hand over, as floats in the host's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "capture/api/kvreplay.h"

namespace kvreplay {

/// Fills `out`, [tokens][heads][size]. Throws std::invalid_argument for an unknown type or memory,
/// strides under which vectors overlap, and device memory where there is no CUDA.
void take_vectors(const kvreplay_vectors& from, std::uint32_t tokens, std::uint32_t heads,
                  std::uint32_t size, std::vector<float>& out);

}  // namespace kvreplay
