#include "traces/verify.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <iostream>
#include <random>

#include "damage.hpp"
#include "paths.hpp"
#include "traces/encoding.hpp"
#include "traces/errors.hpp"
#include "traces/hdf5.hpp"
#include "traces/memory_rows.hpp"
#include "traces/row_recorder.hpp"
#include "traces/trace_reader.hpp"

// HDF5 1.10.8 loses memory of its own when it gives up a spoiled file.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT: the sanitizer's name for it
  return "leak:libhdf5\n";
}

using namespace kvreplay;
using namespace kvreplay::testing;

namespace {

Verification checked(const std::filesystem::path& path) {
  return verify(path, Incomplete::refuse, std::nullopt);
}

bool has_fault(const Verification& found, const std::string& place, const std::string& what) {
  for (const Fault& fault : found.faults)
    if (fault.place.find(place) != std::string::npos && fault.what.find(what) != std::string::npos)
      return true;
  return false;
}

// Writes a trace of one head whose float rows are as given, faults and all.
void write_raw(const std::filesystem::path& path, TraceInfo info, const std::vector<float>& packed,
               std::span<const float> lse) {
  TraceWriter writer(path, info, true);
  RowRecorder recorder(writer, info.encoding);
  recorder.write({0, 0}, {0, info.tokens}, packed, lse);
  writer.finish(info.tokens, {}, {}, recorder.row_sum_error());
}

std::vector<float> uniform_rows(std::uint32_t n) {
  std::vector<float> packed(RowLayout::offset(n));
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = 0; j <= i; ++j)
      packed[RowLayout::offset(i) + j] = 1.0F / static_cast<float>(i + 1);
  return packed;
}

// All that a reader can get out of a trace.
struct Content {
  std::vector<float> values;
  std::vector<float> lse;
  bool operator==(const Content&) const = default;
};

Content content(const std::filesystem::path& path) {
  const TraceReader reader(path);
  const TraceInfo& info = reader.info();
  Content all;
  std::vector<float> scratch;
  for (std::uint32_t layer = 0; layer < info.layers.size(); ++layer)
    for (std::uint32_t head = 0; head < info.heads.size(); ++head) {
      const auto rows = reader.rows({layer, head}, {0, info.tokens}, scratch);
      all.values.insert(all.values.end(), rows.begin(), rows.end());
      const auto lse = reader.log_sum_exp({layer, head});
      all.lse.insert(all.lse.end(), lse.begin(), lse.end());
    }
  return all;
}

}  // namespace

TEST_CASE("a sound trace has no faults in any encoding") {
  const TemporaryFolder folder;
  const auto encoding = GENERATE(Encoding::fp16, Encoding::fp32, Encoding::u16log);
  const auto found = checked(small_trace(folder / "t.h5", encoding));
  CHECK(found.faults.empty());
  CHECK(found.rows == 2 * 2 * 70);
  CHECK(found.checksums);
  CHECK(found.worst_sum_error == found.info.row_sum_error);
  CHECK(!found.worst_row.empty());
}

TEST_CASE("each kind of fault is found at its place") {
  const TemporaryFolder folder;
  const auto path = folder / "t.h5";
  TraceInfo info = plain_info(100);
  const auto encoding = GENERATE(Encoding::fp16, Encoding::fp32);
  info.encoding = encoding;
  auto packed = uniform_rows(100);
  std::vector<float> lse(100, 1.0F);
  const auto at = [](std::uint32_t row, std::uint32_t key) { return RowLayout::offset(row) + key; };

  SECTION("none") {
    write_raw(path, info, packed, lse);
    CHECK(checked(path).faults.empty());
  }
  SECTION("not finite") {
    packed[at(7, 3)] = NAN;
    packed[at(70, 3)] = INFINITY;
    write_raw(path, info, packed, lse);
    const auto found = checked(path);
    CHECK(has_fault(found, "layer 0, head 0, row 7", "not finite (key 3)"));
    CHECK(found.faults.at(0).count == 2);
    CHECK_THAT(found.worst_row, Catch::Contains("row 7"));
  }
  SECTION("negative") {
    packed[at(64, 0)] = -0.25F;
    packed[at(64, 1)] += 0.25F;
    write_raw(path, info, packed, lse);
    CHECK(has_fault(checked(path), "row 64", "negative"));
  }
  SECTION("a row that does not sum to 1") {
    packed[at(99, 50)] = 0;
    write_raw(path, info, packed, lse);
    const auto found = checked(path);
    CHECK(has_fault(found, "row 99", "does not sum to 1"));
    CHECK_THAT(found.worst_row, Catch::Contains("row 99"));
    CHECK(found.worst_sum_error == Approx(0.01).margin(5e-4));
    CHECK(verify(path, Incomplete::refuse, 0.02).faults.empty());
  }
  SECTION("padding") {
    packed[at(9, 10)] = 0.5F;
    write_raw(path, info, packed, lse);
    CHECK(has_fault(checked(path), "row 9", "padding"));
  }
  SECTION("outside the window") {
    info.attention[0] = {"window", 80, 0, 0};
    write_raw(path, info, packed, lse);
    const auto found = checked(path);
    CHECK(has_fault(found, "row 80", "outside the window of 80"));
    CHECK(found.faults.at(0).count == 20);
  }
  SECTION("log-sum-exp") {
    lse[5] = INFINITY;
    write_raw(path, info, packed, lse);
    CHECK(has_fault(checked(path), "layer 0, head 0", "infinite"));
    lse[5] = NAN;
    write_raw(path, info, packed, lse);
    CHECK(has_fault(checked(path), "layer 0, head 0", "NaN"));
    std::fill(lse.begin(), lse.end(), NAN);
    write_raw(path, info, packed, lse);
    CHECK(checked(path).faults.empty());
  }
}

TEST_CASE("tokens that are not the prompt's are found") {
  const TemporaryFolder folder;
  const auto path = folder / "t.h5";
  TraceInfo info = plain_info(4);
  info.prompt_tokens = 3;
  // sha256 of the ids 1, 2, 3 as little-endian uint32, by coreutils' sha256sum.
  info.prompt_sha256 = "4636993d3e1da4e9d6b8f87b79e8f7c6d018580d52661950eabc3845c5897a4d";
  const auto packed = uniform_rows(4);
  const std::vector<float> lse(4);
  const auto write = [&](std::vector<std::uint32_t> ids) {
    TraceWriter writer(path, info, true);
    RowRecorder recorder(writer, info.encoding);
    recorder.write({0, 0}, {0, 4}, packed, lse);
    writer.finish(4, ids, std::vector<std::string>{"a", "", "c", "d"}, recorder.row_sum_error());
  };
  write({1, 2, 3, 9});
  CHECK(checked(path).faults.empty());
  write({1, 2, 4, 9});
  CHECK(has_fault(checked(path), "/tokens/ids", "prompt_sha256"));
}

TEST_CASE("incomplete traces are verified without checksums") {
  const TemporaryFolder folder;
  const auto path = folder / "t.h5";
  {
    TraceWriter writer(path, plain_info(100), false);
    RowRecorder recorder(writer, Encoding::fp32);
    const auto packed = uniform_rows(64);
    recorder.write({0, 0}, {0, 64}, packed, std::vector<float>(64));
    writer.rows_whole(64);
  }
  const auto partial = folder / "t.h5.partial";
  CHECK_THROWS_AS(checked(partial), InputError);
  const auto found = verify(partial, Incomplete::take_whole_rows, std::nullopt);
  CHECK(found.faults.empty());
  CHECK(found.rows == 64);
  CHECK(!found.checksums);
}

TEST_CASE("a trace cut short anywhere is refused") {
  const TemporaryFolder folder;
  const std::string bytes = read_bytes(small_trace(folder / "t.h5"));
  const auto cut = folder / "cut.h5";
  std::mt19937_64 random(1);
  std::vector<std::size_t> lengths{0, 1, 7, 8, 9, 47, 48, 511, 512, bytes.size() - 1};
  for (int i = 0; i < 100; ++i) lengths.push_back(random() % bytes.size());
  for (const std::size_t length : lengths) {
    CAPTURE(length);
    write_bytes(cut, bytes.substr(0, length));
    CHECK_THROWS_AS(TraceReader(cut), InputError);
    CHECK_THROWS_AS(TraceReader(cut, Incomplete::take_whole_rows), InputError);
  }
}

TEST_CASE("a flipped bit is refused, found or harmless, but never a crash") {
  const TemporaryFolder folder;
  const auto encoding = GENERATE(Encoding::fp16, Encoding::fp32, Encoding::u16log);
  const auto good = small_trace(folder / "t.h5", encoding, 3);
  const std::string bytes = read_bytes(good);
  const Content expected = content(good);
  const auto flipped = folder / "flipped.h5";
  std::mt19937_64 random(2);
  // Most of a small file is room between pages; flip where there is something, and a few elsewhere.
  std::vector<std::size_t> used;
  for (std::size_t at = 0; at < bytes.size(); ++at)
    if (bytes[at] != 0) used.push_back(at);
  int refused = 0;
  int found = 0;
  for (int i = 0; i < 300; ++i) {
    const std::size_t at = i % 8 == 0 ? random() % bytes.size() : used[random() % used.size()];
    const auto bit = random() % 8;
    CAPTURE(at, bit);
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
    write_bytes(flipped, damaged);
    try {
      if (!checked(flipped).faults.empty())
        ++found;
      else
        CHECK((content(flipped) == expected));
    } catch (const InputError&) {
      ++refused;
    }
  }
  CHECK(refused > 50);
  CHECK(found > 5);
}

TEST_CASE("a flipped bit in any row or log-sum-exp is found") {
  const TemporaryFolder folder;
  const auto encoding = GENERATE(Encoding::fp16, Encoding::fp32, Encoding::u16log);
  const auto path = small_trace(folder / "t.h5", encoding);
  const std::string bytes = read_bytes(path);
  const auto flipped = folder / "flipped.h5";
  const auto file = hdf5::File::open(path);
  std::mt19937_64 random(3);
  for (const auto* name : {"/layers/1/rows", "/layers/0/log_sum_exp"}) {
    const auto dataset = file.dataset(name);
    const std::uint64_t size = H5Dget_storage_size(dataset.id());
    for (int i = 0; i < 60; ++i) {
      const std::size_t at = dataset.contiguous_offset().value() + random() % size;
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << (random() % 8)));
      write_bytes(flipped, damaged);
      const auto found = checked(flipped);
      CAPTURE(name, at);
      REQUIRE(has_fault(found, std::string(name).starts_with("/layers/1") ? "layer 1" : "layer 0",
                        "checksum"));
    }
  }
}

TEST_CASE("overwritten stretches of a trace never crash the reader") {
  const TemporaryFolder folder;
  const std::string bytes = read_bytes(small_trace(folder / "t.h5", Encoding::fp16, 3));
  const auto path = folder / "damaged.h5";
  std::mt19937_64 random(4);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = bytes;
    const std::size_t at = random() % damaged.size();
    const std::size_t length = std::min<std::size_t>(1 + random() % 600, damaged.size() - at);
    for (std::size_t k = 0; k < length; ++k)
      damaged[at + k] = static_cast<char>(i % 3 == 0 ? 0 : i % 3 == 1 ? 0xFF : random());
    write_bytes(path, damaged);
    try {
      checked(path);
    } catch (const InputError&) {
    }
  }
  SUCCEED("no crash");
}
