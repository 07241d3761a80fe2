#include "reports/claims/share_interval.hpp"

#include <algorithm>
#include <boost/math/special_functions/beta.hpp>
#include <cmath>

namespace kvreplay::claims {
namespace {

/// How far a limit of the difference is, by those of the two shares.
double distance(double of, double minus, double correlation) {
  return std::sqrt(std::max(0.0, of * of - 2 * correlation * of * minus + minus * minus));
}

}  // namespace

agreement::Interval exact_interval(const Share& share) {
  const double outside = (1 - agreement::kLevel) / 2;
  const double are = share.value * share.size;
  const double are_not = share.size - are;
  return {.low = share.value > 0 ? boost::math::ibeta_inv(are, are_not + 1, outside) : 0,
          .high = share.value < 1 ? boost::math::ibeta_inv(are + 1, are_not, 1 - outside) : 1};
}

agreement::Interval difference_interval(const Share& of, const Share& minus, double correlation) {
  const auto first = exact_interval(of);
  const auto second = exact_interval(minus);
  const double between = of.value - minus.value;
  return {.low = between - distance(of.value - first.low, second.high - minus.value, correlation),
          .high = between + distance(first.high - of.value, minus.value - second.low, correlation)};
}

}  // namespace kvreplay::claims
