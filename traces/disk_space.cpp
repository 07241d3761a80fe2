#include "traces/disk_space.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <map>

#include "traces/errors.hpp"
#include "traces/output_file.hpp"
#include "traces/size_text.hpp"

namespace kvreplay {
namespace {

std::filesystem::path disk_of(const std::filesystem::path& path) {
  return folder_of(partial_of(path));
}

[[noreturn]] void refuse(const std::string& names, bool several, std::uint64_t needed,
                         std::uint64_t available, const std::string& advice) {
  // Rounded apart, so that the two never read the same.
  throw OutputError(names + (several ? " need" : ": the file needs") + " up to " +
                    size_text(needed, SizeRounding::up) + " but the disk has " +
                    size_text(available, SizeRounding::down) + " free; " + advice);
}

}  // namespace

std::optional<std::uint64_t> free_space(const std::filesystem::path& path) {
  struct statvfs disk {};
  if (::statvfs(disk_of(path).c_str(), &disk) != 0) return std::nullopt;
  return std::uint64_t{disk.f_bavail} * disk.f_frsize;
}

void check_space(std::span<const PlannedFile> files, const std::string& advice) {
  std::map<dev_t, std::uint64_t> needed;
  std::map<dev_t, std::string> names;
  for (const PlannedFile& file : files) {
    struct stat folder {};
    const auto available = free_space(file.path);
    // Where nothing is known, the writes will tell.
    if (!available || ::stat(disk_of(file.path).c_str(), &folder) != 0) continue;
    const std::uint64_t bytes = needed[folder.st_dev] += file.bytes;
    std::string& name = names[folder.st_dev];
    if (!name.empty()) name += " and ";
    name += file.path.string();
    if (bytes <= *available) continue;
    refuse(name, name != file.path.string(), bytes, *available, advice);
  }
}

}  // namespace kvreplay
