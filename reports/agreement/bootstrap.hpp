// How far a mean over steps could be off: the circular block bootstrap of Politis and Romano
// (1992).
//
// What is measured at steps near each other is alike, so that steps are drawn in blocks of
// consecutive ones, behind the last of which the first follows. Of several traces, traces are drawn
// first, with replacement, and blocks within each. The interval is between percentiles.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvreplay::agreement {

/// What was measured at a step: a sum of samples and how many they were.
struct Point {
  double sum = 0;
  double count = 0;
};

struct Bootstrap {
  std::uint32_t replicates = 1000;
  std::uint32_t block =
      0;  ///< points in a block, at most half of them; 0: the root of their number
  std::uint64_t seed = 0;
  std::size_t least_traces = 2;  ///< fewer are all taken, and only blocks within them drawn
};

constexpr double kLevel = 0.95;
constexpr std::size_t kLeastPoints = 5;  ///< fewer give no interval

struct Interval {
  double low = 0;
  double high = 0;
};

/// The mean over traces of sum / count over all points of each.
struct Estimate {
  double value = 0;
  std::optional<Interval> interval;  ///< none: some trace has fewer than kLeastPoints points
};

/// Points in a block, of so many.
std::size_t block_length(const Bootstrap& bootstrap, std::size_t points);

/// By trace, points in the order of their steps; those of count 0 are left out, and traces that
/// have no others. None: no trace is left.
std::optional<Estimate> estimate(std::span<const std::vector<Point>> traces,
                                 const Bootstrap& bootstrap);

}  // namespace kvreplay::agreement
