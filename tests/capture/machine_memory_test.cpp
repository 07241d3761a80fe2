#include "capture/machine_memory.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "paths.hpp"

namespace kvreplay::testing {
namespace {

void put(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

// As Linux writes them.
constexpr const char* kMeminfo =
    "MemTotal:       24000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\n"
    "SwapTotal:       2000000 kB\nSwapFree:        1000000 kB\n";

}  // namespace

TEST_CASE("memory that can be had is what the system says, swap included") {
  const TemporaryFolder root;
  CHECK_FALSE(available_memory(root.path()));
  put(root / "proc/meminfo", kMeminfo);
  CHECK(available_memory(root.path()) == 9'000'000ULL * 1024);
  CHECK(available_memory() > 0U);
}

TEST_CASE("a control group of version 2 and those it is in bound memory") {
  const TemporaryFolder root;
  put(root / "proc/meminfo", kMeminfo);
  put(root / "proc/self/cgroup", "0::/batch/job\n");
  const auto job = root / "sys/fs/cgroup/batch/job";
  put(job / "memory.max", "max\n");
  CHECK(available_memory(root.path()) == 9'000'000ULL * 1024);
  put(job / "memory.max", "4000000000\n");
  CHECK(available_memory(root.path()) == 4'000'000'000ULL);
  put(job / "memory.current", "3000000000\n");
  put(job / "memory.stat", "anon 900000000\nfile 2000000000\ninactive_file 500000000\n");
  CHECK(available_memory(root.path()) == 1'500'000'000ULL);
  put(root / "sys/fs/cgroup/batch/memory.max", "1000000000\n");
  CHECK(available_memory(root.path()) == 1'000'000'000ULL);
  put(root / "sys/fs/cgroup/batch/memory.current", "1200000000\n");
  CHECK(available_memory(root.path()) == 0U);
}

TEST_CASE("a control group of version 1, seen from within a container, bounds memory") {
  const TemporaryFolder root;
  put(root / "proc/meminfo", kMeminfo);
  put(root / "proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/1234\n0::/\n");
  const auto group = root / "sys/fs/cgroup/memory";
  put(group / "memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(available_memory(root.path()) == 9'000'000ULL * 1024);
  put(group / "memory.limit_in_bytes", "2000000000\n");
  put(group / "memory.usage_in_bytes", "500000000\n");
  put(group / "memory.stat", "cache 3\ntotal_inactive_file 100000000\n");
  CHECK(available_memory(root.path()) == 1'600'000'000ULL);
}

}  // namespace kvreplay::testing
