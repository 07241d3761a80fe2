#include <catch2/catch.hpp>

#include "small_disk.hpp"
#include "traces/errors.hpp"
#include "traces/memory_rows.hpp"
#include "traces/synth.hpp"
#include "traces/trace_reader.hpp"
#include "traces/trace_writer.hpp"

using namespace kvreplay;
using kvreplay::testing::SmallDisk;

namespace {

// Rows 64 at a time, all on the first key.
void write_block(TraceWriter& writer, std::uint32_t first) {
  const RowRange range{first, first + 64};
  std::vector<float> rows(range.values());
  for (std::uint32_t i = range.first; i < range.last; ++i)
    rows[RowLayout::offset(i) - RowLayout::offset(first)] = 1;
  writer.write_rows({0, 0}, range, std::as_bytes(std::span(rows)), std::vector<float>(64));
}

}  // namespace

TEST_CASE("a disk without room for the plan is refused before anything is written") {
  const SmallDisk disk(2);
  if (!disk.ready()) return;
  CHECK_THROWS_WITH(
      TraceWriter(disk / "t.h5", plain_info(1024), false),
      Catch::Matches(".*needs up to 2\\.\\d+ MB but the disk has 2\\.0\\d MB free.*"));
  CHECK(std::filesystem::is_empty(disk.path()));
}

TEST_CASE("a disk that fills up leaves the whole rows, or nothing") {
  const SmallDisk disk(4);
  if (!disk.ready()) return;
  SECTION("before a row is whole") {
    {
      TraceWriter writer(disk / "t.h5", plain_info(1024), false);
      disk.fill();
      CHECK_THROWS_WITH(write_block(writer, 0), Catch::Contains("row 0 of layer 0, head 0") &&
                                                    Catch::Contains("the disk is full") &&
                                                    Catch::Contains("is removed"));
    }
    CHECK(!std::filesystem::exists(disk / "t.h5.partial"));
  }
  SECTION("in the middle") {
    {
      TraceWriter writer(disk / "t.h5", plain_info(1024), false);
      write_block(writer, 0);
      write_block(writer, 64);
      writer.rows_whole(128);
      disk.fill(20'000);
      CHECK_THROWS_WITH(write_block(writer, 128),
                        Catch::Contains("the disk is full") &&
                            Catch::Contains("t.h5.partial keeps rows 0 to 127"));
    }
    const TraceReader reader(disk / "t.h5.partial", Incomplete::take_whole_rows);
    CHECK(reader.info().tokens == 128);
  }
  SECTION("at the end") {
    {
      TraceWriter writer(disk / "t.h5", plain_info(256), false);
      for (std::uint32_t first = 0; first < 256; first += 64) write_block(writer, first);
      disk.fill();
      const std::vector<std::uint32_t> ids(256);
      const std::vector<std::string> pieces(256, "token");
      CHECK_THROWS_WITH(writer.finish(256, ids, pieces, 0),
                        Catch::Contains("the disk is full") && Catch::Contains("rows 0 to 255"));
      std::filesystem::remove(disk / "ballast");
    }
    CHECK(!std::filesystem::exists(disk / "t.h5"));
    const TraceReader reader(disk / "t.h5.partial", Incomplete::take_whole_rows);
    CHECK(reader.info().tokens == 256);
  }
  SECTION("with room made in time, the trace is finished") {
    TraceWriter writer(disk / "t.h5", plain_info(256), false);
    for (std::uint32_t first = 0; first < 256; first += 64) write_block(writer, first);
    disk.fill();
    const std::vector<std::uint32_t> ids(256);
    CHECK_THROWS_AS(writer.finish(256, ids, {}, 0), OutputError);
    std::filesystem::remove(disk / "ballast");
    writer.finish(256, ids, {}, 0);
    CHECK(TraceReader(disk / "t.h5").info().token_ids.size() == 256);
  }
}
