#include "capture/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "traces/errors.hpp"

namespace kvreplay {

namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw InputError(path.string() + ": " + what);
}

std::string reason(int error) {
  return std::generic_category().message(error);
}

struct Descriptor {
  int value;
  ~Descriptor() { close(value); }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const int opened = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) {
    const int error = errno;
    if (error == ENOENT) fail(path, "there is no such file; check the path");
    if (error == EACCES) fail(path, "may not be read; check its permissions");
    fail(path, "cannot be opened: " + reason(error));
  }
  const Descriptor file{opened};
  struct stat status {};
  if (fstat(file.value, &status) != 0) fail(path, "cannot be examined: " + reason(errno));
  if (S_ISDIR(status.st_mode)) fail(path, "is a directory; name a file in it");
  if (!S_ISREG(status.st_mode)) fail(path, "is not a regular file; copy its content to one");
  if (status.st_size == 0) fail(path, "is empty; fetch it again");
  const auto size = static_cast<std::size_t>(status.st_size);
  void* start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (start == MAP_FAILED) fail(path, "cannot be mapped into memory: " + reason(errno));
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::~MappedFile() {
  // munmap takes a pointer to non-const but does not write through it.
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace kvreplay
