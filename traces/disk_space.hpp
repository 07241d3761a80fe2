// Whether what is to be written has room, asked before any of it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace kvreplay {

/// A file and the most bytes that it will have.
struct PlannedFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
};

/// Bytes that are free on the disk where `path` will lie; none where the system does not say.
std::optional<std::uint64_t> free_space(const std::filesystem::path& path);

/// Throws OutputError where files do not fit on the disk that they share; `advice` says what to do.
void check_space(std::span<const PlannedFile> files, const std::string& advice);

}  // namespace kvreplay
