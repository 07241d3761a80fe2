// Memory of a CUDA device that someone else holds.
#pragma once

#include <cstddef>
#include <span>

namespace kvreplay {

/// Copies as many bytes as `to` has from device memory. Work on the device's default stream is
/// waited for. Throws std::runtime_error where CUDA refuses.
void copy_from_device(const void* from, std::span<std::byte> to);

}  // namespace kvreplay
