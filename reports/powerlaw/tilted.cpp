#include "reports/powerlaw/tilted.hpp"

#include <algorithm>
#include <boost/math/quadrature/gauss.hpp>
#include <cmath>

#include "reports/powerlaw/roots.hpp"

namespace kvreplay::powerlaw {
namespace {

constexpr double kRise = 10;  // of the exponent within one panel of 20 nodes, at most
constexpr double kFar = 40;   // what lies that far up adds nothing: exp(-40) is 4e-18

/// The exponent b y + c g(y), which is convex.
class Exponent {
 public:
  Exponent(Tilt tilt, double b, double c) : tilt_(tilt), b_(b), c_(c) {}

  double g(double y) const { return tilt_ == Tilt::square ? y * y : std::expm1(y); }
  double operator()(double y) const { return b_ * y + (c_ > 0 ? c_ * g(y) : 0); }

  /// Where it is least.
  double lowest() const {
    if (b_ >= 0) return 0;
    return tilt_ == Tilt::square ? -b_ / (2 * c_) : std::log(-b_ / c_);
  }

  /// A step from y away from the lowest point that rises by no more than kRise, and over which 20
  /// nodes are enough.
  double step(double y, bool right) const {
    const double bend = tilt_ == Tilt::square ? c_ : c_ * std::exp(y);
    const double slope = std::abs(tilt_ == Tilt::square ? b_ + 2 * c_ * y : b_ + bend);
    // The root of slope h + bend h^2 = kRise; for e^h - 1 - h, h^2 is a bound up to 1.
    const double quadratic = 2 * kRise / (slope + std::sqrt(slope * slope + 4 * bend * kRise));
    if (tilt_ == Tilt::square || !right || quadratic <= 1) return quadratic;
    double step = std::log1p(kRise / 2 / bend);
    if (b_ > 0) step = std::min(step, kRise / 2 / b_);
    // Where the cut-off sets in, exp(-c e^y) bends over lengths of 1.
    const double edge = std::log(0.01 / c_);
    step = y < edge - 1 ? std::min(step, edge - y) : std::min(step, 4.0);
    return std::max(step, 1.0);
  }

 private:
  Tilt tilt_;
  double b_;
  double c_;
};

}  // namespace

TiltedMoments tilted_moments(Tilt tilt, double b, double c, double from, double to) {
  using Rule = boost::math::quadrature::gauss<double, 20>;
  const Exponent exponent(tilt, b, c);
  const double lowest = std::clamp(exponent.lowest(), from, to);
  const double base = exponent(lowest);
  double mass = 0;
  double sum_y = 0;
  double sum_g = 0;
  const auto add_panel = [&](double left, double right) {
    const double middle = (left + right) / 2;
    const double half = (right - left) / 2;
    for (std::size_t node = 0; node < Rule::abscissa().size(); ++node) {
      for (const double side : {-1.0, 1.0}) {
        const double y = middle + side * half * Rule::abscissa()[node];
        const double weight = half * Rule::weights()[node] * std::exp(base - exponent(y));
        mass += weight;
        sum_y += weight * y;
        sum_g += weight * exponent.g(y);
      }
    }
  };
  for (double y = lowest; y < to && exponent(y) - base < kFar;) {
    const double next = std::min(to, y + exponent.step(y, true));
    add_panel(y, next);
    y = next;
  }
  for (double y = lowest; y > from && exponent(y) - base < kFar;) {
    const double next = std::max(from, y - exponent.step(y, false));
    add_panel(next, y);
    y = next;
  }
  return {std::log(mass) - base, sum_y / mass, sum_g / mass};
}

std::optional<double> fit_b(const std::function<double(double)>& along_b, double guess,
                            double scale, double least) {
  return root_of_decreasing(along_b, guess, 0.25 / scale, least,
                            std::numeric_limits<double>::infinity());
}

std::optional<TiltedFit> fit_tilted(const std::function<Slopes(double, double)>& slopes,
                                    double scale_y, double scale_g) {
  constexpr double kWidest = 32;  // of ln c, to either side
  double b = 1 / scale_y;
  const auto best_b = [&](double c) {
    b = fit_b([&](double at) { return slopes(at, c).along_b; }, b, scale_y).value_or(b);
    return b;
  };
  const auto along_c = [&](double log_c) {
    const double c = std::exp(log_c);
    return slopes(best_b(c), c).along_c;
  };
  const double guess = -std::log(scale_g) - 2;
  const auto log_c = root_of_decreasing(along_c, guess, 1, guess - kWidest, guess + kWidest);
  if (!log_c) return std::nullopt;
  const double c = std::exp(*log_c);
  return TiltedFit{best_b(c), c};
}

}  // namespace kvreplay::powerlaw
