// How much of a mapped file a process holds.
#include "traces/mapped_file.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "paths.hpp"
#include "traces/synth.hpp"
#include "traces/trace_reader.hpp"

using namespace kvreplay;
using kvreplay::testing::TemporaryFolder;

namespace {

/// Bytes of files that are in this process's memory.
std::uint64_t held_of_files() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssFile:")) return std::stoull(line.substr(8)) * 1024;
  }
  return 0;
}

constexpr std::size_t kMiB = std::size_t{1} << 20;

}  // namespace

TEST_CASE("a mapped file is held as far as it is read and not released") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  constexpr std::size_t kPieces = 64;
  {
    std::ofstream file(path, std::ios::binary);
    for (std::size_t piece = 0; piece < kPieces; ++piece) {
      const std::string bytes(kMiB, static_cast<char>(piece));
      file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
  }
  const MappedFile mapped(path);
  const bool releases = GENERATE(true, false);
  const auto before = held_of_files();
  REQUIRE(before > 0);
  std::uint64_t most = 0;
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    const auto bytes = mapped.bytes().subspan(piece * kMiB, kMiB);
    mapped.fetch(bytes);
    for (std::size_t at = 0; at < kMiB; at += 4096) {
      REQUIRE(bytes[at] == static_cast<std::byte>(piece));
    }
    most = std::max(most, std::max(held_of_files(), before) - before);
    if (releases) mapped.release(bytes);
  }
  if (releases) {
    CHECK(most < 8 * kMiB);
  } else {
    CHECK(most > 48 * kMiB);  // so that the test can fail
  }
  CHECK(mapped.bytes()[0] == std::byte{0});  // what was let go can be read again
  CHECK(mapped.bytes()[5 * kMiB + 1] == std::byte{5});
}

TEST_CASE("a trace whose rows are read in turn is held in part only") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "trace.h5";
  SynthOptions options;
  options.tokens = 2048;
  options.heads = 6;
  options.kv_heads = 6;
  options.encoding = Encoding::fp32;
  synthesize(options, path, false);  // 51 MB
  const TraceReader reader(path);
  const bool side_by_side = GENERATE(false, true);
  const std::uint32_t step = GENERATE(128U, 2U);  // of which 2 are less than is worth a call
  const std::uint32_t heads_at_once = side_by_side ? options.heads : 1;
  const auto before = held_of_files();
  std::uint64_t most = 0;
  std::vector<float> scratch;
  for (std::uint32_t head = 0; head < options.heads; head += heads_at_once) {
    for (std::uint32_t first = 0; first < options.tokens; first += step) {
      std::vector<std::span<const float>> rows;
      for (std::uint32_t one = 0; one < heads_at_once; ++one) {
        rows.push_back(reader.rows({0, head + one}, {first, first + step}, scratch));
      }
      for (const auto weights : rows) {
        const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
        REQUIRE(sum == Approx(step).margin(0.1));
      }
      most = std::max(most, std::max(held_of_files(), before) - before);
    }
  }
  // Of 49 MiB. A fault maps some pages around it too, of which many small reads leave more behind.
  CHECK(most < (step == 128 ? 12 : 20) * kMiB);
}
