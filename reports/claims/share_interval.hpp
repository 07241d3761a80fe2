// Intervals of shares of things that are so or not. A bootstrap has none where all are alike: of
// six that are so it only ever draws such.
#pragma once

#include "reports/agreement/bootstrap.hpp"

namespace kvreplay::claims {

/// A share of as many independent things, which need not be a whole number.
struct Share {
  double value = 0;
  double size = 1;
};

/// The exact interval of 95 % of Clopper and Pearson (1934).
agreement::Interval exact_interval(const Share& share);

/// Of `of` - `minus`, two shares of the same things, from their exact intervals (Newcombe 1998,
/// "Improved confidence intervals for the difference between binomial proportions based on paired
/// data"). `correlation` is that of being the one and being the other.
agreement::Interval difference_interval(const Share& of, const Share& minus, double correlation);

}  // namespace kvreplay::claims
