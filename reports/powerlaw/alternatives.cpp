#include "reports/powerlaw/alternatives.hpp"

#include <boost/math/special_functions/erf.hpp>
#include <cmath>

#include "reports/powerlaw/hurwitz_zeta.hpp"
#include "reports/powerlaw/tail.hpp"

namespace kvreplay::powerlaw {

std::string_view name(Family family) {
  switch (family) {
    case Family::lognormal:
      return "lognormal";
    case Family::exponential:
      return "exponential";
    case Family::stretched_exponential:
      return "stretched_exponential";
    case Family::truncated_power_law:
      return "truncated_power_law";
  }
  return "";
}

Comparison vuong_test(std::span<const double> ratios, std::span<const double> counts) {
  Comparison comparison;
  double n = 0;
  for (std::size_t at = 0; at < ratios.size(); ++at) {
    comparison.lr += counts[at] * ratios[at];
    n += counts[at];
  }
  double squares = 0;
  for (std::size_t at = 0; at < ratios.size(); ++at) {
    const double off = ratios[at] - comparison.lr / n;
    squares += counts[at] * off * off;
  }
  if (squares > 0) {
    comparison.vuong = comparison.lr / std::sqrt(squares);
    comparison.p = boost::math::erfc(std::abs(*comparison.vuong) / std::sqrt(2.0));
  }
  return comparison;
}

double nested_p(double lr) {
  return boost::math::erfc(std::sqrt(std::max(0.0, -lr)));
}

std::vector<Alternative> compare(const Sample& sample, const Fit& fit, bool discrete) {
  const Tail tail(sample, fit);
  const double zeta = discrete ? hurwitz_zeta(fit.alpha, fit.xmin) : 0;
  const auto power_law = [&](std::size_t at) {
    return discrete ? -fit.alpha * std::log(tail.x[at]) - std::log(zeta)
                    : std::log(fit.alpha - 1) - (fit.alpha - 1) * tail.y[at];
  };
  std::vector<Alternative> alternatives;
  for (const auto family : {Family::lognormal, Family::exponential, Family::stretched_exponential,
                            Family::truncated_power_law}) {
    const auto fitted = discrete ? fit_discrete(tail, fit, family) : fit_continuous(tail, family);
    Alternative alternative;
    alternative.family = family;
    alternative.collapsed = fitted.collapsed;
    alternative.parameters = fitted.parameters;
    std::vector<double> ratios(tail.x.size());
    for (std::size_t at = 0; at < ratios.size() && !fitted.log_density.empty(); ++at) {
      ratios[at] = power_law(at) - fitted.log_density[at];
    }
    const auto comparison = vuong_test(ratios, tail.counts);
    alternative.lr = comparison.lr;
    if (!fitted.collapsed) {
      alternative.vuong = comparison.vuong;
      alternative.p =
          family == Family::truncated_power_law ? nested_p(comparison.lr) : comparison.p;
    }
    alternative.log_likelihood = log_likelihood(sample, fit, discrete) - alternative.lr;
    alternatives.push_back(std::move(alternative));
  }
  return alternatives;
}

}  // namespace kvreplay::powerlaw
