// Memory of a CUDA device that someone else holds.
#pragma once

#include <cstddef>

namespace kvreplay {

/// Copies `rows` rows of `bytes` bytes, each `stride` bytes behind the one before, from device
/// memory to `to`, where they lie behind one another. Work on the device's default stream is waited
/// for. Throws std::runtime_error where CUDA refuses.
void copy_from_device(const std::byte* from, std::size_t stride, std::size_t bytes,
                      std::size_t rows, std::byte* to);

}  // namespace kvreplay
