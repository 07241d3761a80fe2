#include "capture/recorder.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <future>
#include <random>

#include "paths.hpp"
#include "small_disk.hpp"
#include "traces/trace_reader.hpp"
#include "traces/verify.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Matchers::Contains;

TraceInfo planned_trace(std::uint32_t tokens, Encoding encoding) {
  TraceInfo info;
  info.tokens = tokens;
  info.prompt_tokens = tokens;
  info.model_layers = 3;
  info.model_heads = 4;
  info.kv_heads = 2;
  info.head_size = 8;
  info.layers = {0, 2};
  info.heads = {1, 2, 3};
  info.encoding = encoding;
  info.attention.assign(2, {});
  info.attention[0].scale = info.attention[1].scale = 0.35;
  info.source = "test";
  return info;
}

/// Row i of any head: 1/2 on itself, the rest spread evenly; exact sums in fp32.
std::vector<float> rows_of(RowRange range, float own) {
  const std::uint64_t padded = RowLayout::padded_length(range.first);
  std::vector<float> rows(range.values());
  for (std::uint32_t i = 0; i < range.size(); ++i) {
    const std::uint32_t row = range.first + i;
    for (std::uint32_t j = 0; j < row; ++j)
      rows[i * padded + j] = (1 - own) / static_cast<float>(row);
    rows[i * padded + row] = row == 0 ? 1 : own;
  }
  return rows;
}

float own_of(std::uint32_t layer, std::uint32_t head) {
  return 0.125F * static_cast<float>(1 + layer + head);
}

void hand_over(Recorder& recorder, std::uint32_t layer, std::uint32_t head, RowRange range) {
  const std::vector<float> lse(range.size(), own_of(layer, head));
  recorder.rows(layer, head, {.rows = range, .factors = {}}, rows_of(range, own_of(layer, head)),
                lse);
}

void check_rows(const TraceReader& reader, std::uint32_t tokens) {
  std::vector<float> scratch;
  for (std::uint32_t layer = 0; layer < 2; ++layer)
    for (std::uint32_t head = 0; head < 3; ++head) {
      const float own = own_of(reader.info().layers[layer], reader.info().heads[head]);
      for (std::uint32_t row = 0; row < tokens; ++row) {
        const RowRange range{row, row + 1};
        const auto stored = reader.rows({layer, head}, range, scratch);
        REQUIRE(std::vector(stored.begin(), stored.end()) == rows_of(range, own));
      }
      CHECK(reader.log_sum_exp({layer, head})[tokens - 1] == own);
    }
}

}  // namespace

TEST_CASE("blocks of many threads in any order become a trace in row order") {
  constexpr std::uint32_t kTokens = 64 * 5 + 17;
  const TemporaryFolder folder;
  {
    Recorder recorder(folder / "t.h5", planned_trace(kTokens, Encoding::fp32), false);
    CHECK(recorder.wants(2, 1));
    CHECK_FALSE(recorder.wants(1, 1));
    CHECK_FALSE(recorder.wants(2, 0));
    struct Job {
      std::uint32_t layer, head;
      RowRange range;
    };
    std::vector<Job> jobs;
    for (const std::uint32_t layer : {0U, 2U})
      for (const std::uint32_t head : {1U, 2U, 3U})
        for (std::uint32_t row = 0; row < kTokens; row += 64)
          jobs.push_back({layer, head, {row, std::min(row + 64, kTokens)}});
    std::shuffle(jobs.begin(), jobs.end(), std::mt19937(1));
    std::atomic<std::size_t> next{0};
    std::vector<std::future<void>> threads;
    for (int i = 0; i < 4; ++i)
      threads.push_back(std::async(std::launch::async, [&] {
        for (std::size_t job = next++; job < jobs.size(); job = next++)
          hand_over(recorder, jobs[job].layer, jobs[job].head, jobs[job].range);
      }));
    for (auto& thread : threads) thread.get();
    recorder.rows_whole(kTokens);
    recorder.finish(kTokens, std::vector<std::uint32_t>(kTokens, 7),
                    std::vector<std::string>(kTokens, "seven"));
    CHECK(recorder.row_sum_error() < 1e-5);
  }
  const TraceReader reader(folder / "t.h5");
  CHECK(reader.info().tokens == kTokens);
  CHECK(reader.info().pieces.at(3) == "seven");
  check_rows(reader, kTokens);
}

TEST_CASE("the row-sum error is that of the rows as decoded") {
  const TemporaryFolder folder;
  Recorder recorder(folder / "t.h5", planned_trace(4, Encoding::fp16), false);
  for (const std::uint32_t layer : {0U, 2U})
    for (const std::uint32_t head : {1U, 2U, 3U}) {
      std::vector<float> rows(RowRange{0, 4}.values());
      for (std::uint32_t row = 0; row < 4; ++row)
        for (std::uint32_t j = 0; j <= row; ++j)
          rows[row * 64 + j] = 1 / static_cast<float>(row + 1);
      recorder.rows(layer, head, {.rows = {0, 4}, .factors = {}}, rows, std::vector<float>(4));
    }
  recorder.finish(4, std::vector<std::uint32_t>(4), std::vector<std::string>(4));
  // A third in half precision is 0x3555 = 0.333251953125.
  CHECK(recorder.row_sum_error() == Approx(1 - 3 * 0.333251953125).epsilon(1e-9));
}

TEST_CASE("blocks that wait for an earlier one never hold all buffers for ever") {
  // Buffers of 2 MiB: 32 of them. Blocks 1..32 fill them all, 33 waits, 0 comes last.
  const TemporaryFolder folder;
  TraceInfo info = planned_trace(8192, Encoding::fp32);
  info.layers = {0};
  info.heads = {1};
  info.attention.resize(1);
  REQUIRE(Recorder::buffer_bytes(info) == 32U << 21);
  {
    Recorder recorder(folder / "t.h5", info, false);
    const auto block = [&](std::uint32_t index) {
      hand_over(recorder, 0, 1, {index * 64, index * 64 + 64});
    };
    for (std::uint32_t index = 1; index <= 32; ++index) block(index);
    auto waiting = std::async(std::launch::async, [&] { block(33); });
    CHECK(waiting.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
    block(0);
    waiting.get();
    recorder.rows_whole(34 * 64);
    CHECK_THAT(recorder.leftover(), Contains("t.h5.partial") && Contains("2175"));
  }
  CHECK_FALSE(std::filesystem::exists(folder / "t.h5"));
  const TraceReader reader(folder / "t.h5.partial", Incomplete::take_whole_rows);
  CHECK(reader.info().tokens == 34 * 64);
  std::vector<float> scratch;
  const RowRange range{33 * 64, 34 * 64};
  const auto rows = reader.rows({0, 0}, range, scratch);
  CHECK(std::vector(rows.begin(), rows.end()) == rows_of(range, own_of(0, 1)));
}

TEST_CASE("a row sum that is no number stays the worst") {
  const TemporaryFolder folder;
  Recorder recorder(folder / "t.h5", planned_trace(64, Encoding::fp32), false);
  for (const std::uint32_t layer : {0U, 2U})
    for (const std::uint32_t head : {1U, 2U, 3U}) {
      auto rows = rows_of({0, 64}, 0.5F);
      if (layer == 0 && head == 1) rows[RowLayout::offset(3)] = NAN;
      recorder.rows(layer, head, {.rows = {0, 64}, .factors = {}}, rows, std::vector<float>(64));
    }
  recorder.rows_whole(64);
  recorder.finish(64, std::vector<std::uint32_t>(64), std::vector<std::string>(64));
  CHECK(std::isnan(recorder.row_sum_error()));
  const auto found = verify(folder / "t.h5", Incomplete::refuse, std::nullopt);
  CHECK(std::isnan(found.worst_sum_error));
  CHECK_THAT(found.worst_row, Contains("layer 0, head 1, row 3"));
}

TEST_CASE("a disk that fills up is an error of the next call and keeps the whole rows") {
  const SmallDisk disk(8);
  if (!disk.ready()) return;
  std::string message;
  {
    // The plan fits when it is made; then something else takes the room.
    Recorder recorder(disk / "t.h5", planned_trace(512, Encoding::fp32), false);
    const auto all_heads = [&](RowRange range) {
      for (const std::uint32_t layer : {0U, 2U})
        for (const std::uint32_t head : {1U, 2U, 3U}) hand_over(recorder, layer, head, range);
      recorder.rows_whole(range.last);
    };
    all_heads({0, 64});
    all_heads({64, 128});
    recorder.drain();
    disk.fill();
    try {
      for (std::uint32_t row = 128; row < 512; row += 64) all_heads({row, row + 64});
      recorder.finish(512, std::vector<std::uint32_t>(512), std::vector<std::string>(512));
    } catch (const OutputError& error) {
      message = error.what();
    }
    CHECK_THROWS_AS(recorder.drain(), OutputError);
  }
  CHECK_THAT(message, Contains("t.h5.partial") && Contains("the disk is full"));
  CHECK_FALSE(std::filesystem::exists(disk / "t.h5"));
  const TraceReader reader(disk / "t.h5.partial", Incomplete::take_whole_rows);
  CHECK(reader.info().tokens >= 128);
  check_rows(reader, 128);
}

}  // namespace kvreplay::testing
