// What is fitted to tails of integers.
#include <algorithm>
#include <boost/math/tools/minima.hpp>
#include <cmath>

#include "reports/powerlaw/hurwitz_zeta.hpp"
#include "reports/powerlaw/roots.hpp"
#include "reports/powerlaw/tail.hpp"
#include "reports/powerlaw/tilted.hpp"

namespace kvreplay::powerlaw {
namespace {

/// The lognormal between x - 1/2 and x + 1/2, in y = ln(x / (xmin - 1/2)).
class RoundedLognormal {
 public:
  explicit RoundedLognormal(const Tail& tail) : tail_(tail) {
    for (const double x : tail.x) {
      from_.push_back(std::log((x - 0.5) / (tail.xmin - 0.5)));
      to_.push_back(std::log((x + 0.5) / (tail.xmin - 0.5)));
    }
  }

  Slopes slopes(double b, double c) const {
    const auto all = tilted_moments(Tilt::square, b, c);
    Slopes of_data;
    for (std::size_t at = 0; at < from_.size(); ++at) {
      const auto here = tilted_moments(Tilt::square, b, c, from_[at], to_[at]);
      of_data.along_b += tail_.counts[at] / tail_.n * here.mean_y;
      of_data.along_c += tail_.counts[at] / tail_.n * here.mean_g;
    }
    return {all.mean_y - of_data.along_b, all.mean_g - of_data.along_c};
  }

  FittedFamily fit() const {
    const double scale = tail_.mean([&](std::size_t at) { return to_[at]; });
    // At c = 0 it is the continuous power law, rounded.
    const double power_law =
        fit_b([&](double b) { return slopes(b, 0).along_b; }, 1 / scale, scale, 1e-3 / scale)
            .value_or(1 / scale);
    TiltedFit best{power_law, 0};
    if (slopes(power_law, 0).along_c > 0) {
      best = fit_tilted([&](double b, double c) { return slopes(b, c); }, scale, scale * scale)
                 .value_or(best);
    }
    FittedFamily fitted;
    fitted.collapsed = best.c == 0;
    const double log_mass = tilted_moments(Tilt::square, best.b, best.c).log_mass;
    for (std::size_t at = 0; at < from_.size(); ++at) {
      fitted.log_density.push_back(
          tilted_moments(Tilt::square, best.b, best.c, from_[at], to_[at]).log_mass - log_mass);
    }
    if (!fitted.collapsed) {
      fitted.parameters = {{"mu", std::log(tail_.xmin - 0.5) - best.b / (2 * best.c)},
                           {"sigma", std::sqrt(0.5 / best.c)}};
    }
    return fitted;
  }

 private:
  const Tail& tail_;
  std::vector<double> from_;
  std::vector<double> to_;
};

/// Sums of exp(-b y - c (e^y - 1)) over the integers x = xmin e^y from xmin on.
class TruncatedSums {
 public:
  explicit TruncatedSums(double xmin) : xmin_(xmin) {
    for (std::size_t at = 0; at < kSummed; ++at) {
      g_[at] = static_cast<double>(at) / xmin;
      y_[at] = std::log1p(g_[at]);
    }
  }

  TiltedMoments moments(double b, double c) const {
    const auto exponent = [&](std::size_t at) { return b * y_[at] + c * g_[at]; };
    // It falls towards x = -b xmin / c, if that is above xmin, and rises from there on.
    const double lowest = std::clamp(-b * xmin_ / c - xmin_, 0.0, double{kSummed - 1});
    const double base = exponent(static_cast<std::size_t>(lowest));
    double mass = 0;
    double sum_y = 0;
    double sum_g = 0;
    bool over = false;
    for (std::size_t at = 0; at < kSummed && !over; ++at) {
      const double up = exponent(at) - base;
      const double weight = std::exp(-up);
      mass += weight;
      sum_y += weight * y_[at];
      sum_g += weight * g_[at];
      over = up > 45 && static_cast<double>(at) > lowest;
    }
    if (!over) {  // the rest as an integral over x, which is xmin e^y dy
      const double from = std::log1p((kSummed - 0.5) / xmin_);
      const auto rest = tilted_moments(Tilt::exponential, b - 1, c, from);
      const double weight = xmin_ * std::exp(rest.log_mass + base);
      mass += weight;
      sum_y += weight * rest.mean_y;
      sum_g += weight * rest.mean_g;
    }
    return {std::log(mass) - base, sum_y / mass, sum_g / mass};
  }

 private:
  static constexpr int kSummed = 10000;
  double xmin_;
  std::vector<double> y_ = std::vector<double>(kSummed);
  std::vector<double> g_ = std::vector<double>(kSummed);
};

FittedFamily fit_truncated(const Tail& tail, const Fit& fit) {
  FittedFamily fitted;
  const double mean_g = tail.mean([&](std::size_t at) { return tail.x[at] / tail.xmin - 1; });
  // The likelihood is concave: whether it falls from lambda = 0 on is all there is to ask.
  fitted.collapsed =
      fit.alpha > 2 &&
      mean_g >=
          hurwitz_zeta(fit.alpha - 1, fit.xmin) / hurwitz_zeta(fit.alpha, fit.xmin) / fit.xmin - 1;
  if (fitted.collapsed) return fitted;
  const TruncatedSums sums(tail.xmin);
  const auto best = fit_tilted(
      [&](double b, double c) {
        const auto moments = sums.moments(b, c);
        return Slopes{moments.mean_y - tail.mean_y, moments.mean_g - mean_g};
      },
      tail.mean_y, mean_g);
  fitted.collapsed = !best;
  if (!best) return fitted;
  const double log_mass = sums.moments(best->b, best->c).log_mass;
  for (std::size_t at = 0; at < tail.x.size(); ++at) {
    fitted.log_density.push_back(-best->b * tail.y[at] - best->c * (tail.x[at] / tail.xmin - 1) -
                                 log_mass);
  }
  fitted.parameters = {{"alpha", best->b}, {"lambda", best->c / tail.xmin}};
  return fitted;
}

FittedFamily fit_geometric(const Tail& tail) {
  const double mean = tail.mean([&](std::size_t at) { return tail.x[at] - tail.xmin; });
  const double rate = std::log1p(1 / mean);
  FittedFamily fitted;
  for (const double x : tail.x) {
    fitted.log_density.push_back(std::log(-std::expm1(-rate)) - rate * (x - tail.xmin));
  }
  fitted.parameters = {{"rate", rate}};
  return fitted;
}

/// P(X >= x) = exp(-kappa h(x)) with h = ((x / xmin)^beta - 1) / beta; h = ln(x / xmin) at beta 0.
class DiscreteWeibull {
 public:
  explicit DiscreteWeibull(const Tail& tail) : tail_(tail) {}

  void set_beta(double beta) {
    h_.clear();
    gap_.clear();
    for (std::size_t at = 0; at < tail_.x.size(); ++at) {
      const double next = std::log1p(1 / tail_.x[at]);  // ln of (x + 1) / x
      h_.push_back(std::expm1(beta * tail_.y[at]) / beta);
      gap_.push_back(std::exp(beta * tail_.y[at]) * std::expm1(beta * next) / beta);
    }
    const double scale = tail_.mean([&](std::size_t at) { return h_[at] + gap_[at]; });
    const auto slope = [&](double log_kappa) {
      const double kappa = std::exp(log_kappa);
      return tail_.mean(
          [&](std::size_t at) { return gap_[at] / std::expm1(kappa * gap_[at]) - h_[at]; });
    };
    const auto found = root_of_decreasing(slope, -std::log(scale), 0.5, -700, 700);
    kappa_ = std::exp(found.value_or(-std::log(scale)));
  }
  double kappa() const { return kappa_; }
  double log_probability(std::size_t at) const {
    return -kappa_ * h_[at] + std::log(-std::expm1(-kappa_ * gap_[at]));
  }
  double mean_log_likelihood() const {
    return tail_.mean([&](std::size_t at) { return log_probability(at); });
  }

 private:
  const Tail& tail_;
  double kappa_ = 1;
  std::vector<double> h_;
  std::vector<double> gap_;  ///< h(x + 1) - h(x)
};

FittedFamily fit_weibull(const Tail& tail) {
  constexpr int kTried = 40;
  DiscreteWeibull weibull(tail);
  const auto loss = [&](double log_beta) {
    weibull.set_beta(std::exp(log_beta));
    return -weibull.mean_log_likelihood();
  };
  const double least = std::log(1e-4);
  const double step = (std::log(std::min(20.0, 300 / tail.y.back())) - least) / kTried;
  int best = 0;
  double lowest = loss(least);
  for (int at = 1; at <= kTried; ++at) {
    const double here = loss(least + at * step);
    if (here < lowest) {
      lowest = here;
      best = at;
    }
  }
  double log_beta = least;
  if (best > 0) {
    std::uintmax_t steps = 100;
    log_beta = boost::math::tools::brent_find_minima(loss, least + (best - 1) * step,
                                                     least + (best + 1) * step, 40, steps)
                   .first;
  }
  const double beta = std::exp(log_beta);
  weibull.set_beta(beta);
  FittedFamily fitted;
  fitted.collapsed = best == 0;
  for (std::size_t at = 0; at < tail.x.size(); ++at) {
    fitted.log_density.push_back(weibull.log_probability(at));
  }
  if (!fitted.collapsed) {
    fitted.parameters = {{"beta", beta},
                         {"lambda", weibull.kappa() / beta * std::pow(tail.xmin, -beta)}};
  }
  return fitted;
}

}  // namespace

FittedFamily fit_discrete(const Tail& tail, const Fit& fit, Family family) {
  switch (family) {
    case Family::lognormal:
      return RoundedLognormal(tail).fit();
    case Family::exponential:
      return fit_geometric(tail);
    case Family::stretched_exponential:
      return fit_weibull(tail);
    case Family::truncated_power_law:
      return fit_truncated(tail, fit);
  }
  return {};
}

}  // namespace kvreplay::powerlaw
