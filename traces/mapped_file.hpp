// A whole file, read-only in memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace kvreplay {

class MappedFile {
 public:
  /// Throws InputError where the path is missing, unreadable, empty or not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace kvreplay
