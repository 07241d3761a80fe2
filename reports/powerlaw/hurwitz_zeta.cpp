#include "reports/powerlaw/hurwitz_zeta.hpp"

#include <algorithm>
#include <cmath>
#include <unsupported/Eigen/SpecialFunctions>

namespace kvreplay::powerlaw {

double hurwitz_zeta(double s, double q) {
  return Eigen::numext::zeta(s, q);
}

double largest_zeta_exponent(double q) {
  constexpr double kMost = 1000;
  return q > 1 ? std::min(kMost, 650 / std::log(q)) : kMost;
}

}  // namespace kvreplay::powerlaw
