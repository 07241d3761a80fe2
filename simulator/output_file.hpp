// Files that appear under their name only when they are whole.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string_view>

namespace kvreplay {

/// Text on its way to `PATH.partial`; finish() syncs it and gives it its name. Without finish() the
/// destructor removes it. All of them throw OutputError.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view text);
  void finish();

 private:
  [[noreturn]] void fail(std::string_view doing);

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::FILE* file_;
};

/// Syncs the closed file `partial` and renames it to `path`.
void publish(const std::filesystem::path& partial, const std::filesystem::path& path);

/// For before long work: throws OutputError if `path` exists and `overwrite` is false, or if no
/// file can be made there.
void check_output(const std::filesystem::path& path, bool overwrite);

}  // namespace kvreplay
