// SHA-256, the identity of models and prompts in a trace.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kvreplay {

/// Lower-case hex of the bytes' hash.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace kvreplay
