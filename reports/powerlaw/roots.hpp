// Roots of functions of which only the sign is known to fall once.
#pragma once

#include <algorithm>
#include <boost/math/tools/toms748_solve.hpp>
#include <cstdint>
#include <optional>

namespace kvreplay::powerlaw {

/// Where `f`, positive on the left and negative on the right, is zero: sought from `guess` outwards
/// in steps that double from `step` on, between `least` and `most`, to about 12 digits. None:
/// nowhere.
template <class Function>
std::optional<double> root_of_decreasing(const Function& f, double guess, double step, double least,
                                         double most) {
  double left = guess;
  double right = guess;
  double at_left = f(guess);
  double at_right = at_left;
  if (at_left == 0) return guess;
  const bool to_the_right = at_left > 0;
  while (to_the_right ? at_right > 0 : !(at_left > 0)) {
    if (to_the_right ? right >= most : left <= least) return std::nullopt;
    if (to_the_right) {
      left = right;
      at_left = at_right;
      right = std::min(most, right + step);
      at_right = f(right);
    } else {
      right = left;
      at_right = at_left;
      left = std::max(least, left - step);
      at_left = f(left);
    }
    step *= 2;
  }
  if (at_right == 0) return right;
  std::uintmax_t steps = 200;
  const auto [low, high] = boost::math::tools::toms748_solve(
      f, left, right, at_left, at_right, boost::math::tools::eps_tolerance<double>(42), steps);
  return low + (high - low) / 2;
}

}  // namespace kvreplay::powerlaw
