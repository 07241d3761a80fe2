// What a figure is of one trace or several of a model, and how far it could be off.
//
// Heads of a layer are alike, so that whole layers are drawn with replacement, the same in all
// traces: they are of one model. Of fewer than 5 layers all are taken, and heads are drawn in each.
// Steps are drawn as agreement::estimate() does, within each trace in blocks of its own length. Of
// 5 traces or more the traces are drawn too; fewer are all taken, and the interval is then over
// heads, layers or steps of these texts, not over texts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/agreement/bootstrap.hpp"

namespace kvreplay::claims {

using agreement::Estimate;
using agreement::Point;

/// What one trace says.
struct Sample {
  /// By head, KV group, layer or step, in order; of count 0 where there is no value.
  std::vector<Point> points;
  std::vector<std::uint32_t> layers = {};  ///< model index, by point; empty: points are of steps
  bool of_yes_or_no = false;               ///< sums are 0 or 1, counts 1: their mean is a share
  /// As the command prints it, where that is not the mean: "10 of 30".
  std::string printed = {};
};

Point sum_of(std::span<const Point> points);

/// The mean over traces of sum / count. The interval of a share is exact, with fewer things than
/// there are by as much as those of a layer are alike (Korn and Graubard 1998); others are between
/// percentiles of 1,000 replicates, and there is none where fewer than 5 things could be drawn.
/// None: no trace has a point.
std::optional<Estimate> estimate(std::span<const Sample> traces, std::uint64_t seed);

/// Of `of` - `minus`, by trace: head by head or step by step where both are of the same layers or
/// of steps, pairs of heads where one is of twice as many; of different layers each is drawn by
/// itself. None: no place has both.
std::optional<Estimate> estimate_difference(std::span<const Sample> of,
                                            std::span<const Sample> minus, std::uint64_t seed);

}  // namespace kvreplay::claims
