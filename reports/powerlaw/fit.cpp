#include "reports/powerlaw/fit.hpp"

#include <algorithm>
#include <boost/math/differentiation/finite_difference.hpp>
#include <cmath>

#include "reports/powerlaw/hurwitz_zeta.hpp"
#include "reports/powerlaw/roots.hpp"

namespace kvreplay::powerlaw {

double Fit::standard_error() const {
  return (alpha - 1) / std::sqrt(static_cast<double>(n_tail));
}

// In t = ln(alpha - 1), where no step of a difference comes to the pole at 1.
std::optional<double> zeta_exponent(double mean_log, double xmin, std::optional<double> near) {
  const auto log_likelihood_at = [&](double t) {
    const double alpha = 1 + std::exp(t);
    return -alpha * mean_log - std::log(hurwitz_zeta(alpha, xmin));
  };
  const auto slope = [&](double t) {
    return boost::math::differentiation::finite_difference_derivative<decltype(log_likelihood_at),
                                                                      double, 4>(log_likelihood_at,
                                                                                 t);
  };
  const double least = std::log(1e-4);
  const double most = std::log(largest_zeta_exponent(xmin) - 1);
  // The continuous fit to numbers that were rounded.
  const double rounded = -std::log(mean_log - std::log(xmin - 0.5));
  const double guess = near ? std::log(*near - 1) : rounded;
  const auto t =
      root_of_decreasing(slope, std::clamp(guess, least, most), near ? 0.02 : 0.1, least, most);
  if (!t) return std::nullopt;
  return 1 + std::exp(*t);
}

void Fitter::start(const Sample& sample) {
  distance_.restart();
  near_.reset();
  log_sums_.resize(sample.distinct());
  double sum = 0;
  for (std::size_t at = sample.distinct(); at-- > 0;) {
    sum += sample.count(at) * sample.logs[at];
    log_sums_[at] = sum;
  }
}

Fit Fitter::fit_at(const Sample& sample, std::size_t first, double log_xmin, double xmin,
                   double enough) {
  Fit fit;
  fit.first = first;
  fit.xmin = xmin;
  fit.n_tail = sample.size() - sample.below[first];
  const auto n = static_cast<double>(fit.n_tail);
  const bool one_value = first + 1 == sample.distinct() && sample.logs[first] == log_xmin;
  if (method_.discrete) {
    fit.alpha = std::numeric_limits<double>::infinity();
    if (!one_value) {
      near_ = zeta_exponent(log_sums_[first] / n, xmin, near_);
      fit.at_bound = !near_;
      fit.alpha = near_.value_or(largest_zeta_exponent(xmin));
    }
    const double whole = one_value ? 1 : hurwitz_zeta(fit.alpha, xmin);
    const auto share = [&](std::size_t at) {
      const double value = sample.values[at];
      if (one_value) return ModelShare{0, 1};
      return ModelShare{1 - hurwitz_zeta(fit.alpha, value) / whole,
                        1 - hurwitz_zeta(fit.alpha, value + 1) / whole};
    };
    fit.ks = distance_.of(sample.below, first, method_.convention(), share, enough);
  } else {
    const double sum = log_sums_[first] - n * log_xmin;
    fit.alpha = one_value || !(sum > 0) ? std::numeric_limits<double>::infinity() : 1 + n / sum;
    const auto share = [&](std::size_t at) {
      const double over = sample.logs[at] - log_xmin;
      const double up_to = over > 0 ? 1 - std::exp((1 - fit.alpha) * over) : 0;
      return ModelShare{up_to, up_to};
    };
    fit.ks = distance_.of(sample.below, first, method_.convention(), share, enough);
  }
  return fit;
}

Scan Fitter::scan(const Sample& sample) {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  Scan found;
  start(sample);
  if (method_.xmin) {
    const auto first = static_cast<std::size_t>(
        std::lower_bound(sample.values.begin(), sample.values.end(), *method_.xmin) -
        sample.values.begin());
    if (first == sample.distinct()) return found;
    found.candidates = 1;
    found.best = fit_at(sample, first, std::log(*method_.xmin), *method_.xmin, kAll);
    return found;
  }
  for (std::size_t at = 0; at + kLeastDistinct <= sample.distinct(); ++at) {
    ++found.candidates;
    const double enough = found.runner_up ? found.runner_up->ks : kAll;
    const Fit fit = fit_at(sample, at, sample.logs[at], sample.values[at], enough);
    if (!found.best || fit.ks < found.best->ks) {
      found.runner_up = found.best;
      found.best = fit;
    } else if (fit.ks < enough) {
      found.runner_up = fit;
    }
  }
  return found;
}

std::optional<bool> Fitter::as_far(const Sample& sample, double ks, double xmin) {
  start(sample);
  const double log_xmin = std::log(xmin);
  const auto first = static_cast<std::size_t>(
      std::lower_bound(sample.logs.begin(), sample.logs.end(), log_xmin) - sample.logs.begin());
  if (method_.xmin) {
    if (first == sample.distinct()) return std::nullopt;
    return fit_at(sample, first, log_xmin, xmin, ks).ks >= ks;
  }
  if (sample.distinct() < kLeastDistinct) return std::nullopt;
  const std::size_t candidates = sample.distinct() - kLeastDistinct + 1;
  // One that is nearer decides, and most likely lies near the xmin that the sample was drawn with.
  for (std::size_t step = 0; step < candidates; ++step) {
    const std::size_t at = (first + step) % candidates;
    const double here = method_.discrete ? sample.values[at] : 0;
    if (fit_at(sample, at, sample.logs[at], here, ks).ks < ks) return false;
  }
  return true;
}

double log_likelihood(const Sample& sample, const Fit& fit, bool discrete) {
  const auto n = static_cast<double>(fit.n_tail);
  double logs = 0;
  for (std::size_t at = fit.first; at < sample.distinct(); ++at) {
    logs += sample.count(at) * sample.logs[at];
  }
  if (discrete) return -fit.alpha * logs - n * std::log(hurwitz_zeta(fit.alpha, fit.xmin));
  return n * std::log((fit.alpha - 1) / fit.xmin) - fit.alpha * (logs - n * std::log(fit.xmin));
}

}  // namespace kvreplay::powerlaw
