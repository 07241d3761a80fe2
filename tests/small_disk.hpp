// A disk of a few megabytes that can be filled.
#pragma once

#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "paths.hpp"

namespace kvreplay::testing {

/// A tmpfs on a temporary folder. Mounting takes root; without it ready() is false and
/// skip() is called.
class SmallDisk {
 public:
  explicit SmallDisk(std::size_t megabytes) {
    const std::string options = "size=" + std::to_string(megabytes) + "m";
    ready_ = ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, options.c_str()) == 0;
    if (!ready_) skip(std::string("cannot mount a tmpfs: ") + std::strerror(errno));
  }
  ~SmallDisk() {
    if (ready_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool ready() const { return ready_; }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  const std::filesystem::path& path() const { return folder_.path(); }
  /// Takes all space but `left` bytes.
  void fill(std::size_t left = 0) const {
    const auto free = std::filesystem::space(folder_.path()).available;
    std::ofstream(folder_ / "ballast") << std::string(free > left ? free - left : 0, 'x');
  }

 private:
  TemporaryFolder folder_;
  bool ready_ = false;
};

}  // namespace kvreplay::testing
