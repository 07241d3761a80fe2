#include "traces/output_file.hpp"

#include <fcntl.h>
#include <stdio.h>  // renameat2
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "traces/errors.hpp"

namespace kvreplay {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw OutputError(path.string() + ": " + what);
}

[[noreturn]] void fail_with(int error, const fs::path& path, const std::string& doing) {
  const bool full = error == ENOSPC || error == EDQUOT;
  fail(path, "cannot " + doing + ": " + error_text(error) +
                 (full ? "; free some space or write elsewhere" : ""));
}

/// Devices and what the system makes up are no places for files; /dev/shm is a disk in memory.
void check_place(const fs::path& path) {
  std::error_code error;
  const fs::path full = fs::absolute(folder_of(path), error);
  const fs::path folder = fs::weakly_canonical(full, error).relative_path();
  auto part = folder.begin();
  if (error || part == folder.end()) return;
  const bool devices = *part == "dev" && (++part == folder.end() || *part != "shm");
  if (devices || *folder.begin() == "proc")
    fail(path, "what lies in /dev or /proc is not a regular file; choose another name");
}

/// Where a name leads that may be a symbolic link, also one to a file that is yet to be made.
fs::path target_of(fs::path path) {
  constexpr int kMostLinks = 40;  // as the system has it; it refuses what has more
  for (int links = 0; links < kMostLinks; ++links) {
    check_place(path);
    std::error_code no_link;
    const fs::path target = fs::read_symlink(path, no_link);
    if (no_link) break;
    path = path.parent_path() / target;
  }
  return path;
}

/// Whether there is a file; anything else of that name is refused.
bool is_there(const fs::path& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) {
    // An unreachable name is an error, a missing file is not.
    if (fs::status_known(status)) return false;
    fail_with(error.value(), path, "create the file");
  }
  if (!fs::is_regular_file(status)) fail(path, "this is not a regular file; choose another name");
  return true;
}

void check_path(const fs::path& path, bool overwrite) {
  if (is_there(path) && !overwrite)
    fail(path, "the file exists; choose another name or pass --overwrite");
}

// What a killed writer left may be replaced; what a living one writes, or a reader reads, may not.
void check_partial(const fs::path& partial, bool overwrite) {
  if (!is_there(partial)) return;
  const int descriptor = ::open(partial.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const bool in_use = descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0;
  if (descriptor >= 0) ::close(descriptor);
  if (in_use) fail(partial, "this file is in use by a writer or reader");
  // A run takes its names before it has anything to write: an empty file is no loss.
  std::error_code error;
  if (!overwrite && fs::file_size(partial, error) > 0)
    fail(partial, "a stopped run left this file; remove it or pass --overwrite");
}

// Only trying tells: permissions, read-only disks and folders of the system differ too much.
void check_folder(const fs::path& path) {
  const fs::path folder = folder_of(path);
  std::error_code error;
  if (!fs::is_directory(folder, error)) fail(path, "its folder does not exist");
  std::string probe = (folder / ".kvreplay-XXXXXX").string();
  const int descriptor = ::mkostemp(probe.data(), O_CLOEXEC);
  if (descriptor < 0) fail_with(errno, path, "create files in its folder");
  ::close(descriptor);
  ::unlink(probe.c_str());
}

// What cannot have its name keeps the one that it has.
void rename_whole(const fs::path& partial, const fs::path& path, bool overwrite) {
  const int status = ::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, path.c_str(),
                                 overwrite ? 0 : RENAME_NOREPLACE);
  // Some file systems know no RENAME_NOREPLACE.
  if (status == 0 || (errno == EINVAL && ::rename(partial.c_str(), path.c_str()) == 0)) return;
  const int error = errno;
  if (error == EEXIST)
    fail(path,
         "a file of that name has come up meanwhile; the new one is kept as " + partial.string());
  fail_with(error, path, "rename the finished " + partial.string() + ", which is kept");
}

void sync(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!synced) fail_with(error, path, "sync to disk");
}

}  // namespace

OutputFile::OutputFile(fs::path path, bool overwrite)
    : path_(target_of(std::move(path))),
      overwrite_(overwrite),
      partial_(claim_output(path_, overwrite)) {
  const int descriptor =
      ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_t{0666});
  if (descriptor < 0) fail_with(errno, partial_, "create the file");
  ::flock(descriptor, LOCK_EX | LOCK_NB);  // tells others that the file is in use
  file_ = ::fdopen(descriptor, "wb");
  if (file_ == nullptr) {
    const int error = errno;
    ::close(descriptor);
    ::unlink(partial_.c_str());
    fail_with(error, partial_, "create the file");
  }
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);  // the file is given up: what cannot be written is not missed
  ::unlink(partial_.c_str());
}

void OutputFile::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size())
    fail_with(errno, partial_, "write the file");
}

void OutputFile::finish(bool whole) {
  if (std::fflush(file_) != 0) fail_with(errno, partial_, "write the file");
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  const int error = errno;
  try {
    if (!closed) fail_with(error, partial_, "write the file");
    sync(partial_);
  } catch (...) {
    ::unlink(partial_.c_str());
    throw;
  }
  if (whole) rename_whole(partial_, path_, overwrite_);
  sync(folder_of(path_));
}

fs::path partial_of(const fs::path& path) {
  return target_of(path).string() + ".partial";
}

void check_output(const fs::path& path, bool overwrite) {
  const fs::path target = target_of(path);
  check_folder(target);
  check_path(target, overwrite);
  check_partial(partial_of(target), overwrite);
}

fs::path claim_output(const fs::path& path, bool overwrite) {
  check_output(path, overwrite);
  fs::path partial = partial_of(path);
  std::error_code error;
  fs::remove(partial, error);
  if (error) fail(partial, "cannot replace it: " + error.message());
  return partial;
}

void publish(const fs::path& partial, const fs::path& path, bool overwrite) {
  const fs::path target = target_of(path);
  sync(partial);
  rename_whole(partial, target, overwrite);
  sync(folder_of(target));
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

std::string error_text(int error) {
  return error == ENOSPC || error == EDQUOT ? "the disk is full"
                                            : std::generic_category().message(error);
}

}  // namespace kvreplay
