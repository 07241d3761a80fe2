#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <fstream>
#include <random>

#include "paths.hpp"
#include "traces/encoding.hpp"
#include "traces/errors.hpp"
#include "traces/hdf5.hpp"
#include "traces/memory_rows.hpp"
#include "traces/row_recorder.hpp"
#include "traces/trace_reader.hpp"
#include "traces/trace_writer.hpp"

using namespace kvreplay;
using kvreplay::testing::TemporaryFolder;

namespace {

// Rows that differ in every place: random, made to sum to 1, in double.
std::vector<double> random_dense(const TraceInfo& info, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::size_t n = info.tokens;
  std::vector<double> dense(info.layers.size() * info.heads.size() * n * n);
  for (std::size_t row = 0; row < dense.size() / n; ++row) {
    double total = 0;
    for (std::size_t j = 0; j <= row % n; ++j) {
      const double u = static_cast<double>(random() >> 11) * 0x1p-53;
      total += dense[row * n + j] = std::pow(u, 8);
    }
    for (std::size_t j = 0; j <= row % n; ++j) dense[row * n + j] /= total;
  }
  return dense;
}

float lse_of(HeadSlot slot, std::uint32_t row) {
  return static_cast<float>(slot.layer * 1000 + slot.head * 100) + static_cast<float>(row) / 8;
}

void copy_rows(const RowSource& source, RowRecorder& recorder, RowRange range) {
  std::vector<float> scratch;
  const TraceInfo& info = source.info();
  for (std::uint32_t layer = 0; layer < info.layers.size(); ++layer)
    for (std::uint32_t head = 0; head < info.heads.size(); ++head) {
      std::vector<float> lse;
      for (std::uint32_t i = range.first; i < range.last; ++i)
        lse.push_back(lse_of({layer, head}, i));
      recorder.write({layer, head}, range, source.rows({layer, head}, range, scratch), lse);
    }
}

TraceInfo described(TraceInfo info, Encoding encoding) {
  info.encoding = encoding;
  info.model_name = "toy \xCE\xB1";
  info.architecture = "llama";
  info.model_sha256 = std::string(64, 'a');
  info.prompt_sha256 = std::string(64, 'b');
  info.compute_type = "fp32";
  info.source = "capture";
  info.rope_type = "normal";
  info.rope_theta = 1e5;
  info.rope_dimensions = 64;
  info.head_size = 64;
  info.tool_version = "1";
  for (auto& attention : info.attention) attention = {"window", 17, 0.125, 50};
  return info;
}

std::vector<std::string> some_pieces(std::uint32_t tokens) {
  std::vector<std::string> pieces;
  for (std::uint32_t i = 0; i < tokens; ++i)
    pieces.push_back(i % 3 == 0 ? ""
                                : "\xF0\x9F\x98\x80" + std::string(1, '\0') + std::to_string(i));
  return pieces;
}

std::vector<std::uint32_t> some_ids(std::uint32_t tokens) {
  std::vector<std::uint32_t> ids;
  for (std::uint32_t i = 0; i < tokens; ++i) ids.push_back(i * 7919);
  return ids;
}

}  // namespace

TEST_CASE("traces of every encoding and length come back as they were written") {
  const TemporaryFolder folder;
  const std::uint32_t n = GENERATE(1U, 63U, 64U, 65U, 200U);
  const Encoding encoding = GENERATE(Encoding::fp16, Encoding::fp32, Encoding::u16log);
  CAPTURE(n, name(encoding));
  TraceInfo info = described(plain_info(n, 2, 4, 2), encoding);
  info.prompt_tokens = (n + 1) / 2;
  const auto dense = random_dense(info, n);
  const MemoryRows source(info, std::span<const double>(dense));
  const auto path = folder / "t.h5";
  double error = 0;
  {
    TraceWriter writer(path, info, false);
    RowRecorder recorder(writer, encoding);
    // Blocks of 64 rows for the prompt, then one row at a time.
    std::uint32_t row = 0;
    while (row < n) {
      const std::uint32_t next =
          row < info.prompt_tokens ? std::min(info.prompt_tokens, (row / 64 + 1) * 64) : row + 1;
      copy_rows(source, recorder, {row, next});
      writer.rows_whole(row = next);
    }
    error = recorder.row_sum_error();
    CHECK(std::filesystem::exists(folder / "t.h5.partial"));
    CHECK(!std::filesystem::exists(path));
    writer.finish(n, some_ids(n), some_pieces(n), error);
  }
  CHECK(!std::filesystem::exists(folder / "t.h5.partial"));

  const TraceReader reader(path);
  const TraceInfo& found = reader.info();
  CHECK(found.tokens == n);
  CHECK(found.prompt_tokens == info.prompt_tokens);
  CHECK(found.model_layers == 2);
  CHECK(found.model_heads == 4);
  CHECK(found.kv_heads == 2);
  CHECK(found.head_size == 64);
  CHECK(found.layers == info.layers);
  CHECK(found.heads == info.heads);
  CHECK(found.encoding == encoding);
  CHECK(found.model_name == info.model_name);
  CHECK(found.architecture == "llama");
  CHECK(found.model_sha256 == info.model_sha256);
  CHECK(found.prompt_sha256 == info.prompt_sha256);
  CHECK(found.compute_type == "fp32");
  CHECK(found.source == "capture");
  CHECK(found.rope_type == "normal");
  CHECK(found.rope_theta == 1e5);
  CHECK(found.rope_dimensions == 64);
  CHECK(found.tool_version == "1");
  CHECK(found.row_sum_error == error);
  CHECK(error < (encoding == Encoding::fp32 ? 1e-6 : 1e-3));
  CHECK(found.token_ids == some_ids(n));
  CHECK(found.pieces == some_pieces(n));
  REQUIRE(found.attention.size() == 2);
  CHECK(found.attention[1].type == "window");
  CHECK(found.attention[1].window == 17);
  CHECK(found.attention[1].scale == 0.125);
  CHECK(found.attention[1].softcap == 50);

  std::vector<float> scratch;
  std::vector<float> expected_scratch;
  for (std::uint32_t layer = 0; layer < 2; ++layer)
    for (std::uint32_t head = 0; head < 4; ++head) {
      const RowRange range{n / 3, n};
      const auto expected = source.rows({layer, head}, range, expected_scratch);
      const auto rows = reader.rows({layer, head}, range, scratch);
      REQUIRE(rows.size() == expected.size());
      CHECK((rows.data() == scratch.data()) == (encoding != Encoding::fp32));
      for (std::size_t at = 0; at < rows.size(); ++at) {
        const double p = expected[at];
        const double bound = encoding == Encoding::fp32     ? 0
                             : encoding == Encoding::u16log ? 1.7e-4 * p + 0x1.01p-32
                                                            : 0x1p-11 * p + 0x1p-25;
        REQUIRE(std::abs(rows[at] - p) <= bound);
      }
      const auto lse = reader.log_sum_exp({layer, head});
      REQUIRE(lse.size() == n);
      for (std::uint32_t i = 0; i < n; ++i) REQUIRE(lse[i] == lse_of({layer, head}, i));
    }
}

TEST_CASE("a selection of layers and heads that ends early reads back") {
  const TemporaryFolder folder;
  TraceInfo info = described(plain_info(300, 6, 8, 2), Encoding::fp16);
  info.layers = {1, 4};
  info.heads = {0, 5, 7};
  info.attention.resize(2);
  info.prompt_tokens = 100;
  const auto dense = random_dense(info, 3);
  const MemoryRows source(info, std::span<const double>(dense));
  {
    TraceWriter writer(folder / "t.h5", info, false);
    RowRecorder recorder(writer, info.encoding);
    copy_rows(source, recorder, {0, 130});
    CHECK_THROWS_AS(writer.finish(300, {}, {}, 0), std::invalid_argument);
    CHECK_THROWS_AS(writer.finish(130, some_ids(129), {}, 0), std::invalid_argument);
    writer.finish(130, some_ids(130), {}, recorder.row_sum_error());
  }
  const TraceReader reader(folder / "t.h5");
  CHECK(reader.info().tokens == 130);
  CHECK(reader.info().layers == std::vector<std::uint32_t>{1, 4});
  CHECK(reader.info().heads == std::vector<std::uint32_t>{0, 5, 7});
  CHECK(reader.info().pieces.empty());
  std::vector<float> a;
  std::vector<float> b;
  const auto rows = reader.rows({1, 2}, {0, 130}, a);
  const auto expected = source.rows({1, 2}, {0, 130}, b);
  for (std::size_t at = 0; at < rows.size(); ++at)
    REQUIRE(rows[at] == Approx(expected[at]).margin(0x1p-25).epsilon(0x1p-11));
  CHECK(reader.log_sum_exp({1, 2})[129] == lse_of({1, 2}, 129));
  CHECK_THROWS_AS(reader.rows({0, 0}, {0, 131}, a), std::invalid_argument);
}

TEST_CASE("the writer refuses rows out of order and of the wrong size") {
  const TemporaryFolder folder;
  TraceWriter writer(folder / "t.h5", plain_info(10), false);
  const std::vector<std::byte> row(64 * 4);
  const std::vector<float> lse(1);
  CHECK_THROWS_AS(writer.write_rows({0, 0}, {1, 2}, row, lse), std::invalid_argument);
  CHECK_THROWS_AS(writer.write_rows({0, 1}, {0, 1}, row, lse), std::invalid_argument);
  CHECK_THROWS_AS(writer.write_rows({0, 0}, {0, 1}, std::span(row).first(63), lse),
                  std::invalid_argument);
  CHECK_THROWS_AS(writer.write_rows({0, 0}, {0, 1}, row, {}), std::invalid_argument);
  CHECK_THROWS_AS(writer.rows_whole(1), std::invalid_argument);
  writer.write_rows({0, 0}, {0, 1}, row, lse);
  CHECK_THROWS_AS(writer.write_rows({0, 0}, {0, 1}, row, lse), std::invalid_argument);
}

TEST_CASE("an unfinished trace keeps whole rows or nothing") {
  const TemporaryFolder folder;
  const TraceInfo info = plain_info(100, 1, 2);
  const auto dense = random_dense(info, 5);
  const MemoryRows source(info, std::span<const double>(dense));
  {
    TraceWriter writer(folder / "none.h5", info, false);
    RowRecorder recorder(writer, info.encoding);
    copy_rows(source, recorder, {0, 64});
    CHECK_THAT(writer.leftover(), Catch::Contains("removed"));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
  {
    TraceWriter writer(folder / "some.h5", info, false);
    RowRecorder recorder(writer, info.encoding);
    copy_rows(source, recorder, {0, 64});
    writer.rows_whole(64);
    CHECK_THAT(writer.leftover(), Catch::Contains("rows 0 to 63"));
  }
  const auto partial = folder / "some.h5.partial";
  CHECK_THROWS_WITH(TraceReader(partial), Catch::Contains("incomplete, 64 of up to 100 rows"));
  {
    const TraceReader reader(partial, Incomplete::take_whole_rows);
    CHECK(reader.info().tokens == 64);
    CHECK_THROWS_WITH(TraceWriter(folder / "some.h5", info, true), Catch::Contains("in use"));
  }
  // The left-over is in the way of a new writer until it may overwrite.
  CHECK_THROWS_AS(TraceWriter(folder / "some.h5", info, false), OutputError);
  CHECK_NOTHROW(TraceWriter(folder / "some.h5", info, true));
}

TEST_CASE("a killed writer's whole rows can be read") {
  const TemporaryFolder folder;
  TraceInfo info = plain_info(150, 2, 2);
  const auto dense = random_dense(info, 6);
  const MemoryRows source(info, std::span<const double>(dense));
  const auto path = folder / "t.h5";
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    TraceWriter writer(path, info, false);
    RowRecorder recorder(writer, info.encoding);
    copy_rows(source, recorder, {0, 70});
    writer.rows_whole(70);
    copy_rows(source, recorder, {70, 71});
    writer.rows_whole(71);
    std::vector<float> scratch;
    recorder.write({0, 0}, {71, 72}, source.rows({0, 0}, {71, 72}, scratch), std::vector<float>(1));
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(!std::filesystem::exists(path));
  const auto partial = folder / "t.h5.partial";
  CHECK_THROWS_AS(TraceReader(partial), InputError);
  const TraceReader reader(partial, Incomplete::take_whole_rows);
  REQUIRE(reader.info().tokens == 71);
  std::vector<float> a;
  std::vector<float> b;
  for (std::uint32_t layer = 0; layer < 2; ++layer)
    for (std::uint32_t head = 0; head < 2; ++head) {
      const auto rows = reader.rows({layer, head}, {0, 71}, a);
      const auto expected = source.rows({layer, head}, {0, 71}, b);
      CHECK(std::equal(rows.begin(), rows.end(), expected.begin(), expected.end()));
      CHECK(reader.log_sum_exp({layer, head})[70] == lse_of({layer, head}, 70));
    }
}

TEST_CASE("outputs that cannot be written are refused") {
  const TemporaryFolder folder;
  const TraceInfo info = plain_info(10);
  CHECK_THROWS_WITH(TraceWriter(folder / "no" / "t.h5", info, false),
                    Catch::Contains("folder does not exist"));
  std::ofstream(folder / "there.h5") << "x";
  CHECK_THROWS_WITH(TraceWriter(folder / "there.h5", info, false), Catch::Contains("exists"));
  std::filesystem::create_directory(folder / "folder.h5");
  CHECK_THROWS_AS(TraceWriter(folder / "folder.h5", info, true), OutputError);
  CHECK_THROWS_WITH(TraceWriter(folder / "big.h5", plain_info(1U << 22, 64, 64), false),
                    Catch::Contains("B free"));
  CHECK_THROWS_AS(TraceWriter(folder / "t.h5", plain_info(0), false), std::invalid_argument);
  {
    const TraceWriter writer(folder / "busy.h5", info, false);
    CHECK_THROWS_WITH(TraceWriter(folder / "busy.h5", info, true), Catch::Contains("in use"));
  }
  if (geteuid() != 0) {
    std::filesystem::permissions(
        folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    CHECK_THROWS_AS(TraceWriter(folder / "t.h5", info, false), OutputError);
    std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  }
}

TEST_CASE("files that are no traces are told apart") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(TraceReader(folder / "missing.h5"), Catch::Contains("no such file"));
  CHECK_THROWS_WITH(TraceReader(folder.path()), Catch::Contains("not a regular file"));
  { std::ofstream empty(folder / "empty.h5"); }
  CHECK_THROWS_WITH(TraceReader(folder / "empty.h5"), Catch::Contains("is empty"));
  std::ofstream(folder / "text.h5") << "some text that is long enough to hold a signature";
  CHECK_THROWS_WITH(TraceReader(folder / "text.h5"), Catch::Contains("not an HDF5 file"));
  hdf5::File::create(folder / "other.h5").set_text("note", "hello");
  CHECK_THROWS_WITH(TraceReader(folder / "other.h5"), Catch::Contains("not a trace"));
}
