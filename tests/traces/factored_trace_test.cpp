// Traces that store queries and keys in place of rows.
#include <Eigen/Core>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <ctime>
#include <random>
#include <sstream>

#include "damage.hpp"
#include "paths.hpp"
#include "traces/attention_rows.hpp"
#include "traces/dump.hpp"
#include "traces/errors.hpp"
#include "traces/memory_rows.hpp"
#include "traces/row_recorder.hpp"
#include "traces/trace_reader.hpp"
#include "traces/trace_writer.hpp"
#include "traces/verify.hpp"

namespace kvreplay::testing {
namespace {

constexpr std::uint32_t kTokens = 150;
constexpr std::uint32_t kSize = 8;

/// Layers 1 and 2 of three, heads 1, 2 and 5 of six, which read KV heads 0, 1 and 2 of three.
TraceInfo planned() {
  TraceInfo info = plain_info(kTokens, 3, 6, 3);
  info.layers = {1, 2};
  info.heads = {1, 2, 5};
  info.attention.resize(2);
  for (auto& attention : info.attention) attention.scale = 0.5;
  info.attention[1] = {"window", 20, 0.5, 4};
  info.head_size = kSize;
  info.encoding = Encoding::factors;
  info.values = true;
  return info;
}

/// Numbers of one kind ('q', 'k' or 'v') of a layer slot and a (KV) head slot.
std::vector<float> numbers(char kind, std::uint32_t layer, std::uint32_t head) {
  std::mt19937 random(static_cast<unsigned>(kind) * 100 + layer * 10 + head);
  std::normal_distribution<float> normal(0, 1.5F);
  std::vector<float> all(std::size_t{kTokens} * kSize);
  for (float& number : all) number = normal(random);
  return all;
}

/// All rows of one head, with their log-sum-exps.
std::pair<std::vector<float>, std::vector<float>> rows_of(const TraceInfo& info, HeadSlot slot) {
  const auto queries = numbers('q', slot.layer, slot.head);
  const auto keys = numbers('k', slot.layer, kv_slots(info)[slot.head]);
  std::vector<float> rows(RowLayout::offset(kTokens));
  std::vector<float, Eigen::aligned_allocator<float>> block(rows.size());
  std::vector<float> lse(kTokens);
  for (std::uint32_t first = 0; first < kTokens; first += 64) {
    const RowRange range{first, std::min(first + 64, kTokens)};
    const QueriesAndKeys factors{kSize, info.attention[slot.layer],
                                 queries.data() + std::size_t{first} * kSize, kSize, keys.data()};
    REQUIRE(attention_rows(factors, range, std::span(block).first(range.values()),
                           std::span(lse).subspan(first, range.size())));
    std::copy_n(block.begin(), range.values(),
                rows.begin() + static_cast<std::ptrdiff_t>(RowLayout::offset(first)));
  }
  return {rows, lse};
}

/// Writes rows `range` of all heads.
void write_range(TraceWriter& writer, const TraceInfo& info, RowRange range) {
  const auto part = [&](const std::vector<float>& all) {
    return std::span(all).subspan(std::size_t{range.first} * kSize,
                                  std::size_t{range.size()} * kSize);
  };
  for (std::uint32_t layer = 0; layer < 2; ++layer)
    for (std::uint32_t head = 0; head < 3; ++head) {
      const auto queries = numbers('q', layer, head);
      const auto keys = numbers('k', layer, kv_slots(info)[head]);
      const auto values = numbers('v', layer, kv_slots(info)[head]);
      const auto lse = rows_of(info, {layer, head}).second;
      KeysAndValues shared;
      if (brings_keys_and_values(info, head)) shared = {part(keys), part(values)};
      if (!info.values) shared.values = {};
      writer.write_rows({layer, head}, range, std::as_bytes(part(queries)),
                        std::span(lse).subspan(range.first, range.size()), shared);
    }
}

double worst_sum(const TraceInfo& info) {
  double worst = 0;
  for (std::uint32_t layer = 0; layer < 2; ++layer)
    for (std::uint32_t head = 0; head < 3; ++head)
      worst = std::max(worst, row_sum_error({0, kTokens}, rows_of(info, {layer, head}).first));
  return worst;
}

void write(const std::filesystem::path& path, const TraceInfo& info = planned()) {
  TraceWriter writer(path, info, true);
  write_range(writer, info, {0, 64});
  write_range(writer, info, {64, 100});
  for (std::uint32_t i = 100; i < kTokens; ++i) write_range(writer, info, {i, i + 1});
  writer.finish(kTokens, {}, {}, worst_sum(info));
}

}  // namespace

TEST_CASE("heads find the keys and values that they read") {
  const TraceInfo info = planned();
  CHECK(recorded_kv_heads(info) == std::vector<std::uint32_t>{0, 1, 2});
  TraceInfo pairs = plain_info(10, 1, 6, 3);
  pairs.heads = {0, 1, 4, 5};
  CHECK(recorded_kv_heads(pairs) == std::vector<std::uint32_t>{0, 2});
  CHECK(kv_slots(pairs) == std::vector<std::uint32_t>{0, 0, 1, 1});
  CHECK(brings_keys_and_values(pairs, 0));
  CHECK_FALSE(brings_keys_and_values(pairs, 1));
  CHECK(brings_keys_and_values(pairs, 2));
  CHECK_FALSE(brings_keys_and_values(pairs, 3));
}

TEST_CASE("the time of a trace does not grow with the square of its heads") {
  constexpr std::uint32_t kHeads = TraceInfo::kMostLayersOrHeads;
  const TemporaryFolder folder;
  const TraceInfo info = plain_info(1, 1, kHeads, kHeads / 2);
  const std::clock_t start = std::clock();
  TraceWriter writer(folder / "t.h5", info, false);
  const std::vector<std::byte> row(RowLayout::padded_length(0) * bytes_per_value(info.encoding));
  const float lse = 0;
  for (std::uint32_t head = 0; head < kHeads; ++head)
    writer.write_rows({0, head}, {0, 1}, row, {&lse, 1});
  writer.finish(1, {}, {}, 0);
  const TraceReader reader(folder / "t.h5");
  CHECK(reader.info().heads.size() == kHeads);
  // Takes 0.2 s; where each head counted those before it, 25 s and more.
  CHECK((std::clock() - start) / CLOCKS_PER_SEC < 10);
}

TEST_CASE("a factored trace gives rows, queries, keys and values back") {
  const TemporaryFolder folder;
  const TraceInfo info = planned();
  write(folder / "t.h5");
  const TraceReader reader(folder / "t.h5");
  CHECK(reader.info().encoding == Encoding::factors);
  CHECK(reader.info().values);
  // Three heads' queries, three KV heads' keys and values.
  CHECK(stored_row_bytes(reader.info()) == 2 * 9 * kTokens * kSize * sizeof(float));
  std::vector<float> scratch;
  for (std::uint32_t layer = 0; layer < 2; ++layer)
    for (std::uint32_t head = 0; head < 3; ++head) {
      const HeadSlot slot{layer, head};
      const auto same = [](std::span<const float> found, const std::vector<float>& expected) {
        return std::equal(found.begin(), found.end(), expected.begin(), expected.end());
      };
      const auto [rows, lse] = rows_of(info, slot);
      CHECK(same(reader.rows(slot, {0, kTokens}, scratch), rows));
      CHECK(same(reader.log_sum_exp(slot), lse));
      CHECK(same(reader.queries(slot), numbers('q', layer, head)));
      CHECK(same(reader.keys(slot), numbers('k', layer, kv_slots(info)[head])));
      CHECK(same(reader.values(slot), numbers('v', layer, kv_slots(info)[head])));
      // A row does not depend on the range that it is read in.
      for (const RowRange range : {RowRange{5, 6}, {63, 65}, {10, 140}, {128, 150}, {149, 150}}) {
        const auto found = reader.rows(slot, range, scratch);
        const std::vector<float> expected(
            rows.begin() + static_cast<std::ptrdiff_t>(RowLayout::offset(range.first)),
            rows.begin() + static_cast<std::ptrdiff_t>(RowLayout::offset(range.last)));
        CHECK(same(found, expected));
      }
    }
  CHECK(verify(folder / "t.h5", Incomplete::refuse, {}).faults.empty());
}

TEST_CASE("rows that are dumped from factors are the rows") {
  const TemporaryFolder folder;
  write(folder / "t.h5");
  const TraceReader reader(folder / "t.h5");
  std::ostringstream text;
  dump(reader, {1, 2}, {60, 130}, DumpFormat::text, text, {});
  std::istringstream words(text.str());
  const auto rows = rows_of(planned(), {1, 2}).first;
  for (std::uint32_t i = 60; i < 130; ++i)
    for (std::uint32_t j = 0; j <= i; ++j) {
      float value = -1;
      words >> value;
      REQUIRE(value == rows[RowLayout::offset(i) + j]);
    }
}

TEST_CASE("values come with rows of every encoding") {
  const TemporaryFolder folder;
  TraceInfo info = planned();
  info.encoding = GENERATE(Encoding::fp16, Encoding::fp32, Encoding::u16log);
  {
    TraceWriter writer(folder / "t.h5", info, false);
    double worst = 0;
    for (std::uint32_t layer = 0; layer < 2; ++layer)
      for (std::uint32_t head = 0; head < 3; ++head) {
        const auto [rows, lse] = rows_of(info, {layer, head});
        std::vector<std::byte> encoded(rows.size() * bytes_per_value(info.encoding));
        worst = std::max(worst, encode_rows(info.encoding, {0, kTokens}, rows, encoded));
        const auto values = numbers('v', layer, kv_slots(info)[head]);
        writer.write_rows({layer, head}, {0, kTokens}, encoded, lse, {.values = values});
      }
    writer.finish(kTokens, {}, {}, worst);
  }
  const TraceReader reader(folder / "t.h5");
  CHECK(reader.keys({0, 0}).empty());
  CHECK(reader.queries({0, 0}).empty());
  const auto values = reader.values({1, 2});
  CHECK(std::vector(values.begin(), values.end()) == numbers('v', 1, 2));
  CHECK(verify(folder / "t.h5", Incomplete::refuse, {}).faults.empty());
}

TEST_CASE("a flipped bit of queries, keys or values is found") {
  const TemporaryFolder folder;
  write(folder / "t.h5");
  const std::string sound = read_bytes(folder / "t.h5");
  for (const char kind : {'q', 'k', 'v'}) {
    const std::vector<float> wanted = numbers(kind, 1, 2);
    const std::string bytes(reinterpret_cast<const char*>(wanted.data()),
                            wanted.size() * sizeof(float));
    const std::size_t at = sound.find(bytes);
    REQUIRE(at != std::string::npos);
    std::string damaged = sound;
    damaged[at + 401] ^= 1;
    write_bytes(folder / "d.h5", damaged);
    const auto found = verify(folder / "d.h5", Incomplete::refuse, {});
    const std::string what = kind == 'q' ? "queries" : kind == 'k' ? "keys" : "values";
    INFO(what);
    REQUIRE(found.faults.size() == 1);
    CHECK_THAT(found.faults[0].place,
               Catch::Contains(kind == 'q' ? "layer 2, head 5" : "layer 2, KV head 2"));
    CHECK_THAT(found.faults[0].what, Catch::Contains("the " + what + " do not match"));
  }
}

TEST_CASE("numbers that are not finite are refused where rows are asked for") {
  const TemporaryFolder folder;
  write(folder / "t.h5");
  std::string bytes = read_bytes(folder / "t.h5");
  const std::vector<float> keys = numbers('k', 1, 1);
  const std::size_t at =
      bytes.find(std::string(reinterpret_cast<const char*>(keys.data()), 4 * kSize));
  REQUIRE(at != std::string::npos);
  const float nan = NAN;
  std::memcpy(bytes.data() + at, &nan, sizeof(nan));
  write_bytes(folder / "d.h5", bytes);
  const TraceReader reader(folder / "d.h5");
  std::vector<float> scratch;
  CHECK_THROWS_WITH(reader.rows({1, 1}, {0, 10}, scratch),
                    Catch::Contains("/layers/2/queries: the attention of head 2, rows from 0, is "
                                    "not finite"));
}

TEST_CASE("factors whose log-sum-exp is of another scale, cap or window are refused") {
  const TemporaryFolder folder;
  TraceInfo info = planned();
  const auto change = GENERATE(0, 1, 2);
  if (change == 0) info.attention[1].scale = 0.6;
  if (change == 1) info.attention[1].softcap = 5;
  if (change == 2) info.attention[1].window = 25;
  {
    TraceWriter writer(folder / "t.h5", info, true);
    write_range(writer, planned(), {0, kTokens});
    writer.finish(kTokens, {}, {}, worst_sum(planned()));
  }
  const TraceReader reader(folder / "t.h5");
  std::vector<float> scratch;
  CHECK_NOTHROW(reader.rows({0, 1}, {0, kTokens}, scratch));
  CHECK_THROWS_WITH(reader.rows({1, 1}, {0, kTokens}, scratch),
                    Catch::Contains("/layers/2/log_sum_exp: head 2, row ") &&
                        Catch::Contains("but queries, keys and the layer's scale"));
  CHECK_NOTHROW(reader.check_log_sum_exp({0, 1}));
  CHECK_THROWS_WITH(reader.check_log_sum_exp({1, 1}),
                    Catch::Contains("/layers/2/log_sum_exp: head 2, row ") &&
                        Catch::Contains("but queries, keys and the layer's scale"));
  CHECK_THROWS_WITH(verify(folder / "t.h5", Incomplete::refuse, {}),
                    Catch::Contains("/layers/2/log_sum_exp: head 1, row "));
}

TEST_CASE("factors without a scale are refused") {
  TraceInfo info = planned();
  CHECK(inconsistency(info).empty());
  info.attention[0].scale = GENERATE(0.0, -1.0, NAN, INFINITY);
  CHECK_THAT(inconsistency(info), Catch::Contains("scale is not above 0"));
  info.encoding = Encoding::fp16;
  CHECK(inconsistency(info).empty());
  info = planned();
  info.attention[1].softcap = NAN;
  CHECK_THAT(inconsistency(info), Catch::Contains("softcap not finite"));
}

TEST_CASE("an incomplete factored trace gives the rows that are whole") {
  const TemporaryFolder folder;
  const TraceInfo info = planned();
  {
    TraceWriter writer(folder / "t.h5", info, false);
    write_range(writer, info, {0, 64});
    write_range(writer, info, {64, 70});
    writer.rows_whole(70);
  }
  CHECK_THROWS_AS(TraceReader(folder / "t.h5.partial"), InputError);
  const TraceReader reader(folder / "t.h5.partial", Incomplete::take_whole_rows);
  CHECK(reader.info().tokens == 70);
  CHECK(reader.keys({0, 1}).size() == 70 * kSize);
  std::vector<float> scratch;
  const auto found = reader.rows({1, 1}, {0, 64}, scratch);
  const auto rows = rows_of(info, {1, 1}).first;
  CHECK(std::equal(found.begin(), found.end(), rows.begin()));
}

TEST_CASE("what a factored trace cannot be written with is refused") {
  const TemporaryFolder folder;
  TraceInfo info = planned();
  TraceWriter writer(folder / "t.h5", info, false);
  const std::vector<float> vector(kSize);
  const std::vector<float> lse(1);
  const auto query = std::as_bytes(std::span(vector));
  CHECK_THROWS_WITH(writer.write_rows({0, 0}, {0, 1}, query, lse),
                    Catch::Contains("brings 0 numbers of keys and 0 of values"));
  CHECK_THROWS_WITH(writer.write_rows({0, 0}, {0, 1}, query, lse, {vector, {}}),
                    Catch::Contains("brings 8 numbers of keys and 0 of values"));
  CHECK_THROWS_WITH(writer.write_rows({0, 0}, {0, 2}, query, lse, {vector, vector}),
                    Catch::Contains("take 64 bytes, not 32"));
  info.head_size = 0;
  CHECK_THROWS_WITH(TraceWriter(folder / "u.h5", info, false), Catch::Contains("of size 0"));
}

}  // namespace kvreplay::testing
