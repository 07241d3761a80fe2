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

  /// Asks for some of the bytes to be fetched meanwhile.
  void fetch(std::span<const std::byte> some) const;
  /// Gives back the memory of some of the bytes, which can be read again as before.
  void release(std::span<const std::byte> some) const;

 private:
  void advise(std::span<const std::byte> some, int advice) const;

  std::span<const std::byte> bytes_;
};

}  // namespace kvreplay
