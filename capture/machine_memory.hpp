// How much memory a program may still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace kvreplay {

/// Bytes that can be had: what the system says is available, swap included, or less where a control
/// group (a container, a batch system) allows less. None where the system does not say. `root` is
/// where proc and sys lie.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& root = "/");

}  // namespace kvreplay
