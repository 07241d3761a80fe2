// Files that appear under their name only when they are whole.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace kvreplay {

/// Bytes on their way to `PATH.partial`; finish() syncs it and gives it its name, or, where they
/// are what a stopped run has done, leaves it as it is called; so it stays where another file has
/// got the name meanwhile. Without finish() the destructor removes it. All of them throw
/// OutputError.
class OutputFile {
 public:
  /// As claim_output(); then creates the partial file.
  OutputFile(std::filesystem::path path, bool overwrite);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void finish(bool whole = true);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool overwrite_;
  std::filesystem::path partial_;
  std::FILE* file_ = nullptr;
};

/// Where the bytes for `path` lie until they are whole, "PATH.partial"; where `path` is a symbolic
/// link, beside the file that it leads to, which is the one to be replaced.
std::filesystem::path partial_of(const std::filesystem::path& path);

/// For before long work: throws OutputError if `path` or a `PATH.partial` that is not empty exists
/// and `overwrite` is false, if a living writer or reader uses the latter, if either is no regular
/// file, or if no file can be made in the folder. Changes nothing.
void check_output(const std::filesystem::path& path, bool overwrite);

/// Checks likewise and removes the `PATH.partial` of a stopped run; returns that name.
std::filesystem::path claim_output(const std::filesystem::path& path, bool overwrite);

/// Syncs the closed file `partial` and renames it to `path`. Throws OutputError.
void publish(const std::filesystem::path& partial, const std::filesystem::path& path,
             bool overwrite);

/// Where `path` lies; "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& path);

/// The text of an errno, in our words for a full disk.
std::string error_text(int error);

}  // namespace kvreplay
