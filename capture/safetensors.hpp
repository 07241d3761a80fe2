// Safetensors files: a JSON table of tensors, then their values. Source: the format's description
// in huggingface/safetensors; every length and offset is checked before use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "traces/mapped_file.hpp"

namespace kvreplay {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                 ///< "F32", "BF16", ...
  std::vector<std::uint64_t> shape;  ///< the last one is contiguous
  std::span<const std::byte> data;   ///< in the mapped file
};

class SafetensorsFile {
 public:
  /// Throws InputError (missing, truncated, table that is no JSON or does not fit the file, tensors
  /// that overlap, leave holes or have another size than their shape).
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  /// In the order of their values.
  std::span<const SafetensorsEntry> entries() const { return entries_; }

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;
  MappedFile file_;
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace kvreplay
