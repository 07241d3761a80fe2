// What is fitted to continuous tails. In y = ln(x / xmin) no family depends on xmin, so that
// likelihood ratios do not depend on the unit of x.
#include <algorithm>
#include <cmath>

#include "reports/powerlaw/roots.hpp"
#include "reports/powerlaw/tail.hpp"
#include "reports/powerlaw/tilted.hpp"

namespace kvreplay::powerlaw {
namespace {

FittedFamily collapsed() {
  FittedFamily fitted;
  fitted.collapsed = true;
  return fitted;
}

/// Whether the likelihood falls from c = 0 on: exact, as it is concave in (b, c).
bool tilt_collapses(const Tail& tail, Tilt tilt, double mean_g) {
  if (tilt == Tilt::square) return mean_g >= 2 * tail.mean_y * tail.mean_y;
  const double alpha = 1 + 1 / tail.mean_y;
  return !std::isfinite(mean_g) || (alpha > 2 && mean_g >= 1 / (alpha - 2));
}

FittedFamily fit_tilt(const Tail& tail, Tilt tilt) {
  const auto g = [&](std::size_t at) {
    return tilt == Tilt::square ? tail.y[at] * tail.y[at] : std::expm1(tail.y[at]);
  };
  const double mean_g = tail.mean(g);
  if (tilt_collapses(tail, tilt, mean_g)) return collapsed();
  const auto fit = fit_tilted(
      [&](double b, double c) {
        const auto moments = tilted_moments(tilt, b, c);
        return Slopes{moments.mean_y - tail.mean_y, moments.mean_g - mean_g};
      },
      tail.mean_y, mean_g);
  if (!fit) return collapsed();
  const double log_mass = tilted_moments(tilt, fit->b, fit->c).log_mass;
  FittedFamily fitted;
  for (std::size_t at = 0; at < tail.x.size(); ++at) {
    fitted.log_density.push_back(-fit->b * tail.y[at] - fit->c * g(at) - log_mass);
  }
  if (tilt == Tilt::square) {
    fitted.parameters = {{"mu", std::log(tail.xmin) - fit->b / (2 * fit->c)},
                         {"sigma", std::sqrt(0.5 / fit->c)}};
  } else {
    fitted.parameters = {{"alpha", fit->b + 1}, {"lambda", fit->c / tail.xmin}};
  }
  return fitted;
}

FittedFamily fit_exponential(const Tail& tail) {
  const double rate = 1 / tail.mean([&](std::size_t at) { return std::expm1(tail.y[at]); });
  FittedFamily fitted;
  for (const double y : tail.y) {
    fitted.log_density.push_back(std::log(rate) + y - rate * std::expm1(y));
  }
  fitted.parameters = {{"rate", rate / tail.xmin}};
  return fitted;
}

/// In y: kappa exp(beta y - kappa (exp(beta y) - 1) / beta); the best kappa of a beta is known.
FittedFamily fit_stretched(const Tail& tail) {
  const double mean_square = tail.mean([&](std::size_t at) { return tail.y[at] * tail.y[at]; });
  if (mean_square >= 2 * tail.mean_y * tail.mean_y) return collapsed();
  const double highest = tail.y.back();
  const auto slope = [&](double log_beta) {
    const double beta = std::exp(log_beta);
    double weighted = 0;
    double sum = 0;
    for (std::size_t at = 0; at < tail.y.size(); ++at) {  // over e^(beta highest)
      const double power = std::exp(beta * (tail.y[at] - highest));
      weighted += tail.counts[at] * tail.y[at] * power;
      sum += tail.counts[at] * power * -std::expm1(-beta * tail.y[at]);
    }
    return tail.mean_y + 1 / beta - weighted / sum;
  };
  const double guess = std::log(0.1 / tail.mean_y);
  // Nearer to 0 the slope drowns in rounding, and the likelihoods are equal to all digits.
  const auto log_beta = root_of_decreasing(slope, guess, 0.5, guess - 13, guess + 30);
  if (!log_beta) return collapsed();
  const double beta = std::exp(*log_beta);
  const auto power = [&](std::size_t at) { return std::expm1(beta * tail.y[at]) / beta; };
  const double kappa = 1 / tail.mean(power);
  FittedFamily fitted;
  for (std::size_t at = 0; at < tail.y.size(); ++at) {
    fitted.log_density.push_back(std::log(kappa) + beta * tail.y[at] - kappa * power(at));
  }
  fitted.parameters = {{"beta", beta}, {"lambda", kappa / beta * std::pow(tail.xmin, -beta)}};
  return fitted;
}

}  // namespace

FittedFamily fit_continuous(const Tail& tail, Family family) {
  switch (family) {
    case Family::lognormal:
      return fit_tilt(tail, Tilt::square);
    case Family::exponential:
      return fit_exponential(tail);
    case Family::stretched_exponential:
      return fit_stretched(tail);
    case Family::truncated_power_law:
      return fit_tilt(tail, Tilt::exponential);
  }
  return {};
}

}  // namespace kvreplay::powerlaw
