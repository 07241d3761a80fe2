#include "capture/machine_memory.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace kvreplay {
namespace {

namespace fs = std::filesystem;

/// The number behind `key` at the beginning of a line, as in /proc/meminfo and memory.stat.
std::optional<std::uint64_t> number_of(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t number = 0;
    if (words >> name >> number && name == key) return number;
  }
  return std::nullopt;
}

/// The whole file as a number; none where it is "max".
std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

/// What a group may still take: files that are kept in memory only because there is room count as
/// free.
std::optional<std::uint64_t> left_in(const fs::path& group, const char* limit, const char* usage,
                                     const std::string& files) {
  const auto most = number_in(group / limit);
  if (!most) return std::nullopt;
  const std::uint64_t used = number_in(group / usage).value_or(0);
  const std::uint64_t kept = number_of(group / "memory.stat", files).value_or(0);
  const std::uint64_t needed = used - std::min(used, kept);
  return *most - std::min(*most, needed);
}

/// The group that this process is in, by the line of /proc/self/cgroup whose controllers are these.
std::string group_of(const fs::path& root, const std::string& controllers) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    if (line.substr(first + 1, second - first - 1) == controllers) return line.substr(second + 1);
  }
  return "/";
}

}  // namespace

std::optional<std::uint64_t> available_memory(const fs::path& root) {
  const fs::path meminfo = root / "proc/meminfo";
  auto least = number_of(meminfo, "MemAvailable:");
  if (least) *least = (*least + number_of(meminfo, "SwapFree:").value_or(0)) * 1024;
  const auto limit = [&](std::optional<std::uint64_t> left) {
    if (left) least = std::min(least.value_or(*left), *left);
  };
  // A group is bound by all that it is part of; within a container its own path may not be there.
  const auto each_group = [&](const fs::path& mount, const std::string& group, const char* most,
                              const char* usage, const char* files) {
    for (fs::path path = fs::path(group).relative_path(); !path.empty(); path = path.parent_path())
      limit(left_in(mount / path, most, usage, files));
    limit(left_in(mount, most, usage, files));
  };
  const fs::path groups = root / "sys/fs/cgroup";
  each_group(groups, group_of(root, ""), "memory.max", "memory.current", "inactive_file");
  each_group(groups / "memory", group_of(root, "memory"), "memory.limit_in_bytes",
             "memory.usage_in_bytes", "total_inactive_file");
  return least;
}

}  // namespace kvreplay
