#include "reports/commands/together.hpp"

#include <algorithm>
#include <stdexcept>
#include <system_error>

#include "traces/errors.hpp"
#include "traces/output_file.hpp"

namespace kvreplay::commands {

namespace fs = std::filesystem;

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
    throw OutputError(folder.string() + ": is no folder and cannot be made one" +
                      (fault ? ": " + fault.message() : ""));
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
  std::vector<fs::path> made;
  for (const auto& path : files_) {
    std::error_code unknown;
    const bool is_new = !fs::exists(path, unknown);
    try {
      kvreplay::publish(partial_of(path), path, overwrite_);
    } catch (const OutputError&) {
      for (const auto& other : made) fs::remove(other, unknown);
      throw OutputError(path.string() +
                        ": the finished file cannot be given this name, which another may have "
                        "got meanwhile; no file of this run was kept, run it again");
    }
    if (is_new) made.push_back(path);
  }
  files_.clear();
  folders_.clear();
}

}  // namespace kvreplay::commands
