#include "simulator/output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "traces/errors.hpp"

namespace kvreplay {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_with(int cause, const fs::path& path, std::string_view doing) {
  throw OutputError(path.string() + ": cannot " + std::string(doing) + ": " +
                    std::generic_category().message(cause));
}

fs::path partial_of(const fs::path& path) {
  return path.string() + ".partial";
}

}  // namespace

OutputFile::OutputFile(fs::path path)
    : path_(std::move(path)),
      partial_(partial_of(path_)),
      file_(std::fopen(partial_.c_str(), "wb")) {
  if (file_ == nullptr) fail_with(errno, partial_, "create the file");
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);  // the file is given up: what cannot be written is not missed
  std::error_code ignored;
  fs::remove(partial_, ignored);
}

void OutputFile::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail("write");
}

void OutputFile::finish() {
  if (std::fflush(file_) != 0) fail("write");
  std::FILE* const file = file_;
  file_ = nullptr;
  if (std::fclose(file) != 0) {
    const int cause = errno;
    std::error_code ignored;
    fs::remove(partial_, ignored);
    fail_with(cause, partial_, "write");
  }
  publish(partial_, path_);
}

void OutputFile::fail(std::string_view doing) {
  fail_with(errno, partial_, doing);
}

void publish(const fs::path& partial, const fs::path& path) {
  const int descriptor = ::open(partial.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_with(errno, partial, "sync to disk");
  const bool synced = ::fsync(descriptor) == 0;
  const int cause = errno;
  ::close(descriptor);
  if (!synced) fail_with(cause, partial, "sync to disk");
  if (std::rename(partial.c_str(), path.c_str()) != 0) {
    fail_with(errno, path, "rename the finished " + partial.string());
  }
}

void check_output(const fs::path& path, bool overwrite) {
  std::error_code error;
  if (!overwrite && fs::exists(path, error)) {
    throw OutputError(path.string() + ": exists already; --overwrite replaces it");
  }
  if (fs::is_directory(path, error)) throw OutputError(path.string() + ": is a folder");
  const OutputFile probe(path);
}

}  // namespace kvreplay
