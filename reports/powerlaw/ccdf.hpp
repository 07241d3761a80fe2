// The complementary distribution of numbers, thinned out to what a chart can show.
#pragma once

#include <vector>

#include "reports/powerlaw/sample.hpp"

namespace kvreplay::powerlaw {

struct CcdfPoint {
  double x = 0;
  double share = 0;  ///< of the positive numbers, those that are x or more
};

constexpr double kCcdfStep = 0.05;

/// Ascending. The smallest and the largest number are in; between them, points are `kCcdfStep` or
/// more apart, as parts of the widths of both logarithmic axes added up, so that there are at most
/// 2 / kCcdfStep + 2 of them.
std::vector<CcdfPoint> ccdf_of(const Sample& sample);

}  // namespace kvreplay::powerlaw
