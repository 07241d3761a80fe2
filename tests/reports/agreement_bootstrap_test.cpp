#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "reports/agreement/bootstrap.hpp"

namespace kvreplay::agreement {
namespace {

using Traces = std::vector<std::vector<Point>>;

std::vector<Point> points_of(const std::vector<double>& values) {
  std::vector<Point> points;
  for (const double value : values) points.push_back({value, 1});
  return points;
}

/// Each value `alike` times the one before and a normal number; mean 0.
std::vector<double> series(std::size_t length, double alike, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  double value = normal(random) / std::sqrt(1 - alike * alike);
  std::vector<double> values;
  for (std::size_t at = 0; at < length; ++at) {
    values.push_back(value);
    value = alike * value + normal(random);
  }
  return values;
}

/// How often the interval covers the true mean.
double coverage(std::size_t length, double alike, std::uint32_t block) {
  constexpr int kRuns = 500;
  std::mt19937_64 random(11);
  int covered = 0;
  for (int run = 0; run < kRuns; ++run) {
    const Traces one = {points_of(series(length, alike, random))};
    const auto found =
        estimate(one, {.replicates = 400, .block = block, .seed = static_cast<std::uint64_t>(run)});
    const auto interval = found.value().interval.value();
    covered += interval.low <= 0 && 0 <= interval.high ? 1 : 0;
  }
  return static_cast<double>(covered) / kRuns;
}

TEST_CASE("the value is all sums over all counts, the mean of that over traces") {
  const Traces two = {{{1, 1}, {0, 3}}, {{3, 4}}};
  const auto found = estimate(two, {});
  REQUIRE(found);
  CHECK(found->value == Approx((0.25 + 0.75) / 2));
  CHECK(!found->interval);  // too few points
}

TEST_CASE("points without samples are as if they were not there") {
  std::vector<double> values = {3, 1, 4, 1, 5, 9, 2, 6};
  const Traces without = {points_of(values)};
  auto points = points_of(values);
  points.insert(points.begin() + 3, Point{});
  points.insert(points.begin(), Point{});
  const Traces with = {points, {Point{}, Point{}}};
  const auto one = estimate(without, {.seed = 3}).value();
  const auto other = estimate(with, {.seed = 3}).value();
  CHECK(one.value == other.value);
  CHECK(one.interval.value().low == other.interval.value().low);
  CHECK(one.interval.value().high == other.interval.value().high);
  CHECK(!estimate(Traces{{Point{}}}, {}));
  CHECK(!estimate(Traces{}, {}));
}

TEST_CASE("an interval follows from its seed, and holds what does not vary alone") {
  std::mt19937_64 random(2);
  const Traces one = {points_of(series(32, 0.5, random))};
  const auto low = [&](std::uint64_t seed) {
    return estimate(one, {.seed = seed}).value().interval.value().low;
  };
  CHECK(low(1) == low(1));
  CHECK(low(1) != low(2));
  const Traces even = {points_of(std::vector<double>(32, 0.25))};
  const auto found = estimate(even, {}).value();
  CHECK(found.value == Approx(0.25));
  CHECK(found.interval.value().low == Approx(0.25));
  CHECK(found.interval.value().high == Approx(0.25));
  CHECK(!estimate(even, {.replicates = 0}).value().interval);
}

TEST_CASE("a block is the root of the points, and half of them at most") {
  CHECK(block_length({}, 32) == 6);
  CHECK(block_length({}, 25) == 5);
  CHECK(block_length({.block = 9}, 32) == 9);
  CHECK(block_length({.block = 30}, 32) == 16);
  CHECK(block_length({}, 1) == 1);
  CHECK(block_length({}, 0) == 1);
}

// Drawn with replacement from values 0 and 1 in turn, blocks of two are always one of each.
TEST_CASE("blocks stay together") {
  std::vector<double> values;
  for (int at = 0; at < 20; ++at) values.push_back(at % 2);
  const Traces one = {points_of(values)};
  const auto pairs = estimate(one, {.block = 2}).value().interval.value();
  CHECK(pairs.low == Approx(0.5));
  CHECK(pairs.high == Approx(0.5));
  const auto alone = estimate(one, {.block = 1}).value().interval.value();
  // A binomial of 20: 95 % between 6 and 14.
  CHECK(alone.low == Approx(0.3).margin(0.051));
  CHECK(alone.high == Approx(0.7).margin(0.051));
}

TEST_CASE("intervals cover the mean about as often as they say") {
  const double independent = coverage(60, 0, 1);
  INFO("independent " << independent);
  CHECK(independent > 0.90);
  CHECK(independent < 0.98);
  // Alike by 0.6, a mean varies as one of a quarter of the points.
  const double blocks = coverage(200, 0.6, 0);
  const double no_blocks = coverage(200, 0.6, 1);
  INFO("blocks " << blocks << ", none " << no_blocks);
  CHECK(blocks > 0.85);
  CHECK(blocks < 0.98);
  CHECK(no_blocks < 0.78);
}

TEST_CASE("of several traces the traces are drawn too") {
  const Traces two = {points_of(std::vector<double>(10, 0.0)),
                      points_of(std::vector<double>(10, 1.0))};
  const auto found = estimate(two, {}).value();
  CHECK(found.value == Approx(0.5));
  CHECK(found.interval.value().low == 0);
  CHECK(found.interval.value().high == Approx(1));
}

}  // namespace
}  // namespace kvreplay::agreement
