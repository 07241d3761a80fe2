#include "reports/commands/files_together.hpp"

#include <fcntl.h>
#include <stdio.h>  // renameat2
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <stdexcept>
#include <system_error>

#include "traces/errors.hpp"
#include "traces/output_file.hpp"

namespace kvreplay::commands {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw OutputError(path.string() + ": " + what);
}

/// Where the bytes go that lie at `partial`: to what a link leads to, not to the link.
fs::path target_of(fs::path partial) {
  return partial.replace_extension();
}

/// A name beside `path` that no file has.
fs::path free_beside(const fs::path& path) {
  std::error_code unknown;
  std::string name = path.string() + ".replaced";
  while (fs::exists(fs::symlink_status(name, unknown))) name += "~";
  return name;
}

void rename_to_free(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
  // Some file systems know no RENAME_NOREPLACE.
  if (errno == EINVAL && ::rename(from.c_str(), to.c_str()) == 0) return;
  const int error = errno;
  fail(to, error == EEXIST ? "something of that name has come up meanwhile"
                           : "cannot rename " + from.string() + " to it: " + error_text(error));
}

void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!synced) fail(folder, "cannot sync to disk: " + error_text(error));
}

}  // namespace

FilesTogether::~FilesTogether() {
  std::error_code kept;  // what cannot be removed stays; there is nobody to tell
  for (const auto& path : files_) fs::remove(partial_of(path), kept);
  for (auto folder = folders_.rbegin(); folder != folders_.rend(); ++folder) {
    fs::remove(*folder, kept);  // only where it is empty
  }
}

void FilesTogether::make_folder(const fs::path& folder) {
  std::error_code unknown;
  if (fs::is_directory(folder, unknown)) return;
  if (folder.has_relative_path() && folder.has_parent_path() && folder.parent_path() != folder) {
    make_folder(folder.parent_path());
  }
  std::error_code fault;
  if (fs::create_directory(folder, fault)) folders_.push_back(folder);
  if (!fs::is_directory(folder, unknown)) {
    fail(folder, "is no folder and cannot be made one" + (fault ? ": " + fault.message() : ""));
  }
}

void FilesTogether::add(const fs::path& path, std::string_view bytes) {
  if (std::find(files_.begin(), files_.end(), path) != files_.end()) {
    throw std::invalid_argument(path.string() + " would be written twice; choose another name");
  }
  OutputFile file(path, overwrite_);
  file.write(bytes);
  file.finish(false);
  files_.push_back(path);
}

void FilesTogether::publish() {
  std::vector<Named> named;
  try {
    std::set<fs::path> folders;
    for (const auto& path : files_) {
      name(partial_of(path), named);
      folders.insert(folder_of(named.back().target));
    }
    for (const auto& folder : folders) sync_folder(folder);
  } catch (const OutputError& error) {
    throw OutputError(error.what() + take_back(named));
  }
  std::error_code stays;
  for (const auto& one : named) {
    if (!one.old.empty()) fs::remove(one.old, stays);
  }
  files_.clear();
  folders_.clear();
}

void FilesTogether::name(const fs::path& partial, std::vector<Named>& named) const {
  const fs::path target = target_of(partial);
  auto& one = named.emplace_back(Named{.target = target, .old = {}, .is_new = false});
  std::error_code unknown;
  if (overwrite_ && fs::is_regular_file(target, unknown)) {
    const fs::path old = free_beside(target);
    rename_to_free(target, old);
    one.old = old;
  }
  rename_to_free(partial, target);
  one.is_new = true;
}

std::string FilesTogether::take_back(const std::vector<Named>& named) {
  std::string left;
  for (auto one = named.rbegin(); one != named.rend(); ++one) {
    std::error_code error;
    if (!one->old.empty()) {
      fs::rename(one->old, one->target, error);
      if (error) left += "; what was " + one->target.string() + " is now " + one->old.string();
    } else if (one->is_new) {
      fs::remove(one->target, error);
      if (error) left += "; " + one->target.string() + " cannot be removed";
    }
  }
  return left.empty() ? "; no file of this run was kept, and what was there before is" : left;
}

}  // namespace kvreplay::commands
