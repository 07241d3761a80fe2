// A file to read, checked to be one.
#pragma once

#include <cstdint>
#include <filesystem>

namespace kvreplay {

/// Whether there is something of this name. What cannot be examined counts as there: opening it
/// says why.
bool may_be_there(const std::filesystem::path& path);

/// Owns a descriptor open for reading.
class InputFile {
 public:
  /// Throws InputError where the path is missing, unreadable, empty or not a regular file.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  int descriptor() const { return descriptor_; }
  std::uint64_t size() const { return size_; }

 private:
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace kvreplay
