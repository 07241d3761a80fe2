// Traces that hold some of the rows, against the same rows in a trace that holds all.
#include <Eigen/Core>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <sstream>

#include "damage.hpp"
#include "paths.hpp"
#include "traces/attention_rows.hpp"
#include "traces/dump.hpp"
#include "traces/errors.hpp"
#include "traces/hdf5.hpp"
#include "traces/memory_rows.hpp"
#include "traces/row_recorder.hpp"
#include "traces/trace_reader.hpp"
#include "traces/trace_writer.hpp"
#include "traces/verify.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Contains;

constexpr std::uint32_t kTokens = 200;
constexpr std::uint32_t kSize = 8;

/// Layer 1 of two, heads 0, 2 and 3 of four, which read KV heads 0 and 1 of two.
TraceInfo planned(Encoding encoding, RowSampling sampling = {}) {
  TraceInfo info = plain_info(kTokens, 2, 4, 2);
  info.layers = {1};
  info.heads = {0, 2, 3};
  info.attention = {{"full", 0, 0.5, 0}};
  info.head_size = kSize;
  info.encoding = encoding;
  info.values = true;
  info.sampling = sampling;
  return info;
}

std::vector<float> numbers(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1.5F);
  std::vector<float> all(std::size_t{kTokens} * kSize);
  for (float& number : all) number = normal(random);
  return all;
}

/// All that a run computes of one head.
struct Head {
  std::vector<float> queries, keys, values, lse;
  std::vector<float, Eigen::aligned_allocator<float>> rows;
};

Head head_of(const TraceInfo& info, std::uint32_t slot) {
  const std::uint32_t kv = kv_slots(info)[slot];
  Head head{numbers(slot), numbers(10 + kv), numbers(20 + kv), std::vector<float>(kTokens), {}};
  head.rows.resize(RowLayout::offset(kTokens));
  for (std::uint32_t first = 0; first < kTokens; first += 64) {
    const RowRange range{first, std::min(first + 64, kTokens)};
    const QueriesAndKeys factors{kSize, info.attention[0],
                                 head.queries.data() + std::size_t{first} * kSize, kSize,
                                 head.keys.data()};
    const auto rows = std::span(head.rows).subspan(RowLayout::offset(first), range.values());
    REQUIRE(attention_rows(factors, range, rows, std::span(head.lse).subspan(first, range.size())));
  }
  return head;
}

/// The numbers of `each` a row that the recorded ones of `range` have.
template <class Value>
std::vector<Value> picked(const std::vector<Value>& all, std::size_t each, RowRange range,
                          const TraceInfo& info) {
  std::vector<Value> some;
  for (std::uint32_t i = range.first; i < range.last; ++i) {
    if (i < info.sampling.first || (i - info.sampling.first) % info.sampling.every != 0) continue;
    some.insert(some.end(), all.begin() + static_cast<std::ptrdiff_t>(i * each),
                all.begin() + static_cast<std::ptrdiff_t>((i + 1) * each));
  }
  return some;
}

double write_range(TraceWriter& writer, const TraceInfo& info, RowRange range) {
  double worst = 0;
  for (std::uint32_t slot = 0; slot < info.heads.size(); ++slot) {
    const Head head = head_of(info, slot);
    const auto part = [&](const std::vector<float>& all) {
      return std::span(all).subspan(std::size_t{range.first} * kSize,
                                    std::size_t{range.size()} * kSize);
    };
    KeysAndValues shared;
    const bool factored = info.encoding == Encoding::factors;
    if (brings_keys_and_values(info, slot)) {
      if (factored) shared.keys = part(head.keys);
      if (info.values) shared.values = part(head.values);
    }
    const auto rows = std::span(head.rows).subspan(RowLayout::offset(range.first), range.values());
    const auto lse = picked(head.lse, 1, range, info);
    double error = 0;
    if (factored) {
      error = row_sum_error(range, rows, info.sampling);
      const auto queries = picked(head.queries, kSize, range, info);
      writer.write_rows({0, slot}, range, std::as_bytes(std::span(queries)), lse, shared);
    } else {
      std::vector<std::byte> encoded(info.sampling.values(range) * bytes_per_value(info.encoding));
      error = encode_rows(info.encoding, range, rows, encoded, info.sampling);
      writer.write_rows({0, slot}, range, encoded, lse, shared);
    }
    worst = std::max(worst, error);
  }
  writer.rows_whole(range.last);
  return worst;
}

/// The first tokens by blocks, the others one by one, as a capture writes them.
void write(const std::filesystem::path& path, const TraceInfo& info, std::uint32_t n = kTokens) {
  TraceWriter writer(path, info, true);
  double worst = 0;
  std::uint32_t row = 0;
  while (row < n) {
    const std::uint32_t next = row < 150 ? std::min(150U, (row / 64 + 1) * 64) : row + 1;
    worst = std::max(worst, write_range(writer, info, {row, next}));
    row = next;
  }
  writer.finish(n, {}, {}, worst);
}

/// Row i of a range that begins at `first`, without its padding.
std::vector<float> row_of(std::span<const float> rows, std::uint32_t first, std::uint32_t i) {
  const auto row = rows.subspan(RowLayout::offset(i) - RowLayout::offset(first), i + 1);
  return {row.begin(), row.end()};
}

void check_same_rows(const TraceReader& sampled, const TraceReader& all) {
  const TraceInfo& info = sampled.info();
  std::vector<float> scratch[2];
  for (std::uint32_t slot = 0; slot < info.heads.size(); ++slot) {
    const HeadSlot at{0, slot};
    std::uint32_t held = 0;
    for (const RowRange range : {RowRange{0, kTokens}, RowRange{7, 70}, RowRange{64, 128},
                                 RowRange{kTokens - 1, kTokens}, RowRange{130, kTokens}}) {
      const auto rows = sampled.rows(at, range, scratch[0]);
      REQUIRE(rows.size() == range.values());
      const auto expected = all.rows(at, range, scratch[1]);
      for (std::uint32_t i = range.first; i < range.last; ++i) {
        if (!info.sampling.holds(i)) continue;
        REQUIRE(row_of(rows, range.first, i) == row_of(expected, range.first, i));
        if (range.size() == kTokens) {
          REQUIRE(sampled.log_sum_exp(at)[held] == all.log_sum_exp(at)[i]);
          ++held;
        }
      }
    }
    CHECK(held == info.sampling.before(kTokens));
    CHECK(sampled.log_sum_exp(at).size() == held);
    const auto same = [](std::span<const float> one, std::span<const float> other) {
      return one.size() == other.size() && std::equal(one.begin(), one.end(), other.begin());
    };
    CHECK(same(sampled.keys(at), all.keys(at)));
    CHECK(same(sampled.values(at), all.values(at)));
    if (info.encoding == Encoding::factors) {
      CHECK(sampled.queries(at).size() == std::size_t{held} * kSize);
    }
  }
}

}  // namespace

TEST_CASE("sampled rows are counted and placed as one by one") {
  for (const std::uint32_t first : {0U, 1U, 63U, 64U, 65U, 199U, 1000U})
    for (const std::uint32_t every : {1U, 2U, 3U, 7U, 63U, 64U, 65U, 96U, 500U, 1U << 24}) {
      const RowSampling sampling{first, every};
      CHECK(sampling.all() == (first == 0 && every == 1));
      std::uint32_t before = 0;
      std::uint64_t offset = 0;
      std::vector<std::uint32_t> held;
      for (std::uint32_t i = 0; i < 1500; ++i) {
        REQUIRE(sampling.before(i) == before);
        REQUIRE(sampling.offset(i) == offset);
        const bool is_held = i >= first && (i - first) % every == 0;
        REQUIRE(sampling.holds(i) == is_held);
        if (!is_held) continue;
        held.push_back(i);
        ++before;
        offset += (i / 64 + 1) * 64;
      }
      for (std::uint32_t i = 0; i < 1500; ++i) {
        const auto next = std::lower_bound(held.begin(), held.end(), i);
        if (next != held.end()) REQUIRE(sampling.next(i) == *next);
      }
      CHECK(sampling.count({0, 1500}) == held.size());
    }
  // At the largest sizes, against the closed form of all rows.
  const std::uint32_t most = TraceInfo::kMostTokens;
  CHECK(RowSampling{}.offset(most) == RowLayout::offset(most));
  CHECK(RowSampling{0, 64}.offset(most) == 64 * (std::uint64_t{most / 64} * (most / 64 + 1) / 2));
  CHECK(in_words({}) == "all rows");
  CHECK(in_words({5, 1}) == "all rows from row 5 on");
  CHECK(in_words({0, 2}) == "1 row in 2 from row 0 on");
}

TEST_CASE("a sampled trace holds the rows of one that holds all, bit by bit") {
  const auto encoding =
      GENERATE(Encoding::fp16, Encoding::fp32, Encoding::u16log, Encoding::factors);
  const TemporaryFolder folder;
  write(folder / "all.h5", planned(encoding));
  const TraceReader all(folder / "all.h5");
  const auto sampling =
      GENERATE(RowSampling{0, 2}, RowSampling{100, 1}, RowSampling{63, 64}, RowSampling{5, 30},
               RowSampling{kTokens - 1, 1}, RowSampling{kTokens - 1, 9}, RowSampling{0, 1000},
               RowSampling{199, 1U << 24}, RowSampling{0, 199});
  INFO(name(encoding) << ", " << in_words(sampling));
  const TraceInfo info = planned(encoding, sampling);
  write(folder / "some.h5", info);
  const TraceReader some(folder / "some.h5");
  CHECK(some.info().sampling == sampling);
  CHECK(some.info().tokens == kTokens);
  check_same_rows(some, all);
  const auto found = verify(folder / "some.h5", Incomplete::refuse, std::nullopt);
  CHECK(found.faults.empty());
  CHECK(found.rows == 3 * sampling.before(kTokens));
  CHECK(found.checksums);
  CHECK(stored_row_bytes(info) < stored_row_bytes(all.info()));
}

TEST_CASE("a trace of all rows is version 1 and says nothing of sampling") {
  const TemporaryFolder folder;
  write(folder / "t.h5", planned(Encoding::fp16));
  const auto file = hdf5::File::open(folder / "t.h5");
  CHECK(file.integer_attribute("version", 9) == 1);
  CHECK_FALSE(file.has_attribute("rows_from"));
  CHECK_FALSE(file.has_attribute("rows_every"));
  write(folder / "s.h5", planned(Encoding::fp16, {0, 4}));
  const auto sampled = hdf5::File::open(folder / "s.h5");
  CHECK(sampled.integer_attribute("version", 9) == 2);
}

TEST_CASE("rows that are not held take no space") {
  const TemporaryFolder folder;
  TraceInfo info = planned(Encoding::fp32);
  info.values = false;
  write(folder / "all.h5", info);
  info.sampling = {199, 1};
  write(folder / "one.h5", info);
  // Of three heads 200 rows of up to 256 floats, or one.
  const auto all = std::filesystem::file_size(folder / "all.h5");
  const auto one = std::filesystem::file_size(folder / "one.h5");
  CHECK(all - one > 3 * (RowLayout::offset(199) - 1024) * sizeof(float));
}

TEST_CASE("a plan without a row is refused") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(TraceWriter(folder / "t.h5", planned(Encoding::fp16, {kTokens, 1}), false),
                    Contains("rows are recorded from row 200 on, and of 200 tokens the last row "
                             "is 199"));
  CHECK_THROWS_WITH(TraceWriter(folder / "t.h5", planned(Encoding::fp16, {0, 0}), false),
                    Contains("1 row in 0"));
  // The text may end before the first row comes.
  {
    TraceWriter writer(folder / "t.h5", planned(Encoding::fp16, {150, 1}), false);
    write_range(writer, planned(Encoding::fp16, {150, 1}), {0, 64});
    CHECK_THROWS_WITH(writer.finish(64, {}, {}, 0), Contains("from row 150 on"));
    CHECK_THAT(writer.leftover(), Contains("held no whole rows and is removed"));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("an incomplete sampled trace gives the rows that are whole") {
  const auto encoding = GENERATE(Encoding::u16log, Encoding::factors);
  const TemporaryFolder folder;
  const TraceInfo info = planned(encoding, {3, 50});
  {
    TraceWriter writer(folder / "t.h5", info, false);
    write_range(writer, info, {0, 64});
    write_range(writer, info, {64, 110});
    CHECK_THAT(writer.leftover(), Contains("t.h5.partial keeps 1 row in 50 from row 3 on up to "
                                           "row 109 of every head"));
  }
  CHECK_THROWS_AS(TraceReader(folder / "t.h5.partial"), InputError);
  const TraceReader reader(folder / "t.h5.partial", Incomplete::take_whole_rows);
  CHECK(reader.info().tokens == 110);
  CHECK(reader.log_sum_exp({0, 0}).size() == 3);
  std::vector<float> scratch[2];
  write(folder / "all.h5", planned(encoding));
  const TraceReader all(folder / "all.h5");
  const auto rows = reader.rows({0, 1}, {0, 110}, scratch[0]);
  const auto expected = all.rows({0, 1}, {0, 110}, scratch[1]);
  for (const std::uint32_t i : {3U, 53U}) CHECK(row_of(rows, 0, i) == row_of(expected, 0, i));
  CHECK(verify(folder / "t.h5.partial", Incomplete::take_whole_rows, std::nullopt).faults.empty());
}

TEST_CASE("an incomplete trace whose first row is still to come is none") {
  const TemporaryFolder folder;
  const TraceInfo info = planned(Encoding::fp16, {120, 1});
  {
    TraceWriter writer(folder / "t.h5", info, false);
    write_range(writer, info, {0, 64});
    std::filesystem::copy_file(folder / "t.h5.partial", folder / "killed.h5");
  }
  CHECK_FALSE(std::filesystem::exists(folder / "t.h5.partial"));
  CHECK_THROWS_WITH(TraceReader(folder / "killed.h5", Incomplete::take_whole_rows),
                    Contains("holds no whole row"));
}

TEST_CASE("damage to a sampled trace is found") {
  const TemporaryFolder folder;
  write(folder / "t.h5", planned(Encoding::fp32, {10, 20}));
  const auto with = [&](const char* attribute, std::uint32_t value) {
    std::filesystem::copy_file(folder / "t.h5", folder / "d.h5",
                               std::filesystem::copy_options::overwrite_existing);
    const hdf5::Handle file(H5Fopen((folder / "d.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT),
                            H5Fclose);
    const hdf5::Handle handle(H5Aopen(file.id(), attribute, H5P_DEFAULT), H5Aclose);
    REQUIRE(H5Awrite(handle.id(), H5T_NATIVE_UINT32, &value) >= 0);
  };
  with("rows_from", 11);
  CHECK_THROWS_WITH(TraceReader(folder / "d.h5"),
                    Contains("/row_offsets: row 11 is said to begin"));
  with("rows_from", 4000);
  CHECK_THROWS_WITH(TraceReader(folder / "d.h5"), Contains("from row 4000 on"));
  with("rows_every", 10);
  CHECK_THROWS_WITH(TraceReader(folder / "d.h5"),
                    Contains("/row_offsets: row 21 is said to begin"));
  with("rows_every", 0);
  CHECK_THROWS_WITH(TraceReader(folder / "d.h5"), Contains("1 row in 0"));
  with("version", 1);
  CHECK_THROWS_WITH(TraceReader(folder / "d.h5"), Contains("/row_offsets: row 1 is said to begin"));
  with("version", 3);
  CHECK_THROWS_WITH(TraceReader(folder / "d.h5"), Contains("reads versions 1 and 2"));
}

TEST_CASE("of a sampled trace the rows that it holds are dumped") {
  const TemporaryFolder folder;
  write(folder / "t.h5", planned(Encoding::fp32, {10, 20}));
  write(folder / "all.h5", planned(Encoding::fp32));
  const TraceReader some(folder / "t.h5");
  const TraceReader all(folder / "all.h5");
  const auto dumped = [](const TraceReader& reader, RowRange range, DumpFormat format) {
    std::ostringstream out;
    dump(reader, {0, 2}, range, format, out);
    return out.str();
  };
  for (const auto format : {DumpFormat::text, DumpFormat::csv}) {
    std::string expected;
    for (const std::uint32_t i : {50U, 70U, 90U}) {
      std::string row = dumped(all, {i, i + 1}, format);
      if (format == DumpFormat::csv && i != 50) row = row.substr(row.find('\n') + 1);
      expected += row;
    }
    CHECK(dumped(some, {49, 91}, format) == expected);
  }
  const std::string npy = dumped(some, {49, 91}, DumpFormat::npy);
  CHECK_THAT(npy, Contains("(3,91,)"));
  CHECK(npy.ends_with(dumped(all, {90, 91}, DumpFormat::npy).substr(128)));
}

}  // namespace kvreplay::testing
