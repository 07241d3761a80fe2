// The block formats of ggml: how large a block is and how it becomes floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "capture/stored_tensor.hpp"

namespace kvreplay {

struct BlockFormat {
  GgmlType type;
  const char* name;
  std::uint32_t values;  ///< per block
  std::uint32_t bytes;   ///< per block
  /// Decodes `blocks` consecutive blocks; null for a format that is only known by its size.
  void (*decode)(const std::byte* in, std::size_t blocks, float* out);
};

/// Null for a type id that ggml had not given out when this was written.
const BlockFormat* find_format(GgmlType type);

/// "Q4_K (type 12)", or "type 99" for an unknown id.
std::string type_name(GgmlType type);

/// "F32, F16, ...": every format that can be decoded.
std::string decodable_types();

}  // namespace kvreplay
