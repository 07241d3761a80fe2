#include "traces/memory_rows.hpp"

#include <catch2/catch.hpp>

using namespace kvreplay;

TEST_CASE("dense rows are laid out with padding and the upper triangle is ignored") {
  // Two heads of two tokens; 9 stands where no key may be seen.
  const std::vector<double> dense{1, 9, 0.25, 0.75, 1, 9, 0.5, 0.5};
  const MemoryRows source(plain_info(2, 1, 2), std::span<const double>(dense));
  std::vector<float> scratch;
  const auto rows = source.rows({0, 0}, {0, 2}, scratch);
  REQUIRE(rows.size() == 128);
  CHECK(rows[0] == 1);
  CHECK(rows[1] == 0);
  CHECK(rows[64] == 0.25F);
  CHECK(rows[65] == 0.75F);
  CHECK(rows[66] == 0);
  const auto second = source.rows({0, 1}, {1, 2}, scratch);
  REQUIRE(second.size() == 64);
  CHECK(second[0] == 0.5F);
  CHECK(source.rows({0, 1}, {2, 2}, scratch).empty());
}

TEST_CASE("requests outside the rows and wrong sizes are refused") {
  const std::vector<float> dense{1};
  const MemoryRows source(plain_info(1), std::span<const float>(dense));
  std::vector<float> scratch;
  CHECK_THROWS_AS(source.rows({1, 0}, {0, 1}, scratch), std::invalid_argument);
  CHECK_THROWS_AS(source.rows({0, 1}, {0, 1}, scratch), std::invalid_argument);
  CHECK_THROWS_AS(source.rows({0, 0}, {0, 2}, scratch), std::invalid_argument);
  CHECK_THROWS_AS(source.rows({0, 0}, {1, 0}, scratch), std::invalid_argument);
  CHECK_THROWS_AS(MemoryRows(plain_info(2), std::span<const float>(dense)), std::invalid_argument);
  CHECK_THROWS_AS(MemoryRows(plain_info(0), std::span<const float>(dense)), std::invalid_argument);
  CHECK_THROWS_AS(MemoryRows(plain_info(1, 1, 3, 2), std::span<const float>(dense)),
                  std::invalid_argument);
}
