// Norms of keys and values in traces of every encoding.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "damage.hpp"
#include "paths.hpp"
#include "traces/memory_rows.hpp"
#include "traces/norm.hpp"
#include "traces/row_recorder.hpp"
#include "traces/trace_reader.hpp"
#include "traces/trace_writer.hpp"
#include "traces/verify.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

constexpr std::uint32_t kTokens = 100;

/// Heads 1, 2 and 5 of six, which read KV heads 0, 1 and 2 of three.
TraceInfo planned(Encoding encoding) {
  TraceInfo info = plain_info(kTokens, 2, 6, 3);
  info.heads = {1, 2, 5};
  info.attention.assign(2, {"full", 0, 0.5, 0});
  info.head_size = 2;
  info.encoding = encoding;
  info.norms = true;
  return info;
}

/// Numbers of one kind of a layer and KV slot: 3 and 4 times a factor of their own, so that the
/// norm is 5 times that.
float factor(char kind, std::uint32_t layer, std::uint32_t slot, std::uint32_t row) {
  return static_cast<float>(1 + row + 1000 * (layer * 3 + slot)) * (kind == 'k' ? 1.0F : 0.5F);
}

std::vector<float> vectors(char kind, std::uint32_t layer, std::uint32_t slot) {
  std::vector<float> all;
  for (std::uint32_t row = 0; row < kTokens; ++row)
    for (const float part : {3.0F, 4.0F}) all.push_back(part * factor(kind, layer, slot, row));
  return all;
}

std::vector<float> norms(char kind, std::uint32_t layer, std::uint32_t slot) {
  std::vector<float> all;
  for (std::uint32_t row = 0; row < kTokens; ++row)
    all.push_back(5 * factor(kind, layer, slot, row));
  return all;
}

/// All rows on the first key; with zero queries in factors. `wrong` is added to one norm.
void write(const std::filesystem::path& path, const TraceInfo& info, float wrong = 0) {
  TraceWriter writer(path, info, true);
  const RowRange range{0, kTokens};
  std::vector<float> rows(range.values());
  for (std::uint32_t i = 0; i < kTokens; ++i) rows[RowLayout::offset(i)] = 1;
  double error = 0;
  for (std::uint32_t layer = 0; layer < 2; ++layer)
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      const auto keys = vectors('k', layer, slot);
      const auto values = vectors('v', layer, slot);
      auto key_norms = norms('k', layer, slot);
      const auto value_norms = norms('v', layer, slot);
      if (layer == 1 && slot == 2) key_norms[70] += wrong;
      KeysAndValues shared{{}, {}, key_norms, value_norms};
      if (info.values) shared.values = values;
      std::vector<std::byte> bytes(std::size_t{kTokens} * 2 * sizeof(float));
      if (info.encoding == Encoding::factors) {
        shared.keys = keys;
      } else {
        bytes.resize(rows.size() * bytes_per_value(info.encoding));
        error = encode_rows(info.encoding, range, rows, bytes);
      }
      std::vector<float> lse(kTokens);  // of zero scores, one a key
      for (std::uint32_t i = 0; i < kTokens && info.encoding == Encoding::factors; ++i)
        lse[i] = std::log(static_cast<float>(i + 1));
      writer.write_rows({layer, slot}, range, bytes, lse, shared);
    }
  writer.finish(kTokens, {}, {}, error);
}

}  // namespace

TEST_CASE("a norm is the root of the sum of squares") {
  CHECK(norm(std::vector<float>{3, -4}) == 5);
  CHECK(norm({}) == 0);
  CHECK(norm(std::vector<float>(64, 1e30F)) == Approx(8e30));  // squares exceed a float
}

TEST_CASE("norms of keys and values come back in every encoding") {
  const auto encoding =
      GENERATE(Encoding::fp16, Encoding::fp32, Encoding::u16log, Encoding::factors);
  const TemporaryFolder folder;
  TraceInfo info = planned(encoding);
  info.values = GENERATE(false, true);
  write(folder / "t.h5", info);
  const TraceReader reader(folder / "t.h5");
  CHECK(reader.info().norms);
  for (std::uint32_t layer = 0; layer < 2; ++layer)
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      const auto same = [](std::span<const float> found, const std::vector<float>& expected) {
        return std::vector(found.begin(), found.end()) == expected;
      };
      CHECK(same(reader.key_norms({layer, slot}), norms('k', layer, slot)));
      CHECK(same(reader.value_norms({layer, slot}), norms('v', layer, slot)));
    }
  CHECK(verify(folder / "t.h5", Incomplete::refuse, std::nullopt).faults.empty());
  info.norms = false;
  CHECK(planned_file_bytes(info) < planned_file_bytes(reader.info()));
}

TEST_CASE("a trace without norms has none and says nothing of them") {
  const TemporaryFolder folder;
  small_trace(folder / "t.h5");
  const TraceReader reader(folder / "t.h5");
  CHECK_FALSE(reader.info().norms);
  CHECK(reader.key_norms({0, 0}).empty());
  CHECK(reader.value_norms({1, 1}).empty());
  CHECK(read_bytes(folder / "t.h5").find("norms") == std::string::npos);
}

TEST_CASE("norms that are not those of the keys, or were damaged, are found") {
  const TemporaryFolder folder;
  write(folder / "t.h5", planned(Encoding::factors), 1);
  const auto found = verify(folder / "t.h5", Incomplete::refuse, std::nullopt);
  bool told = false;
  for (const Fault& fault : found.faults) {
    told = told || fault.place == "layer 1, KV head 2, row 70";
    CHECK_THAT(fault.what, Contains("the norm of the key is"));
  }
  CHECK(told);

  write(folder / "t.h5", planned(Encoding::fp16));
  std::string bytes = read_bytes(folder / "t.h5");
  const auto expected = norms('v', 0, 1);
  const std::string stored(reinterpret_cast<const char*>(expected.data()), 4 * kTokens);
  const std::size_t at = bytes.find(stored);
  REQUIRE(at != std::string::npos);
  const float damaged = -2;
  std::memcpy(bytes.data() + at + 40, &damaged, sizeof(damaged));
  write_bytes(folder / "t.h5", bytes);
  const auto faults = verify(folder / "t.h5", Incomplete::refuse, std::nullopt).faults;
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].place == "layer 0, KV head 1, row 10");
  CHECK_THAT(faults[0].what, Contains("norm of a value is negative"));
  CHECK_THAT(faults[1].what, Contains("the value norms do not match their checksum"));
}

TEST_CASE("norms that do not come are missed") {
  const TemporaryFolder folder;
  const TraceInfo info = planned(Encoding::fp16);
  TraceWriter writer(folder / "t.h5", info, false);
  const std::vector<float> one(1, 5.0F);
  const std::vector<std::byte> row(64 * 2);
  CHECK_THROWS_WITH(writer.write_rows({0, 0}, {0, 1}, row, one),
                    Contains("brings norms of 0 keys and 0 values"));
  CHECK_THROWS_WITH(writer.write_rows({0, 0}, {0, 1}, row, one, {{}, {}, one, {}}),
                    Contains("brings norms of 1 keys and 0 values"));
}

}  // namespace kvreplay::testing
