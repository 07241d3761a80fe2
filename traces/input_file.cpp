#include "traces/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "traces/errors.hpp"

namespace kvreplay {

bool may_be_there(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown) || unknown;
}

InputFile::InputFile(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& what) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw InputError(path.string() + ": " + what);
  };
  const auto reason = [](int error) { return std::generic_category().message(error); };
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    const int error = errno;
    if (error == ENOENT) fail("there is no such file; check the path");
    if (error == EACCES) fail("the file may not be read; check its permissions");
    fail("the file cannot be opened: " + reason(error));
  }
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail("the file cannot be examined: " + reason(errno));
  if (S_ISDIR(status.st_mode)) fail("this is a directory, not a regular file; name a file in it");
  if (!S_ISREG(status.st_mode)) fail("this is not a regular file; copy its content to one");
  if (status.st_size == 0) fail("the file is empty");
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

}  // namespace kvreplay
