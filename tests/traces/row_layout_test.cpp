#include <catch2/catch.hpp>

#include "traces/trace.hpp"

TEST_CASE("row layout is a staircase of 64-row blocks") {
  using kvreplay::RowLayout;
  CHECK(RowLayout::offset(0) == 0);
  CHECK(RowLayout::offset(1) == 64);
  CHECK(RowLayout::offset(64) == 64 * 64);
  CHECK(RowLayout::offset(65) == 64 * 64 + 128);
  std::uint64_t expected = 0;
  for (std::uint64_t row = 0; row < 1000; ++row) {
    REQUIRE(RowLayout::offset(row) == expected);
    expected += (row + 1 + 63) / 64 * 64;
  }
}
