// Families of distributions that may fit a tail better than the power law, by Vuong's
// likelihood-ratio test.
//
// All are conditioned on x >= xmin and fitted to the tail of the power law's fit. Continuous:
//   lognormal              density of a lognormal(mu, sigma)
//   exponential            rate exp(-rate (x - xmin))
//   stretched exponential  beta lambda x^(beta-1) exp(-lambda (x^beta - xmin^beta))
//   truncated power law    x^-alpha exp(-lambda x), alpha free, lambda >= 0
// Discrete: the lognormal rounded, (x - 1/2, x + 1/2); the geometric distribution; the discrete
// Weibull, exp(-lambda x^beta) - exp(-lambda (x+1)^beta); x^-alpha exp(-lambda x) over integers.
//
// Three of them come as near to the power law as one likes. Where the likelihood grows that way
// there is no best one: it collapses onto the power law, and a p would mean nothing.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/powerlaw/fit.hpp"

namespace kvreplay::powerlaw {

enum class Family { lognormal, exponential, stretched_exponential, truncated_power_law };

/// "stretched_exponential"
std::string_view name(Family family);

struct Alternative {
  Family family = Family::lognormal;
  bool collapsed = false;
  /// ln of the power law's likelihood over the alternative's: above 0 favours the power law.
  double lr = 0;
  std::optional<double> vuong;  ///< lr / (sd sqrt n), sd of the points' ratios with 1/n
  /// That |lr| is as large where both fit equally well: two-sided from vuong; of the truncated
  /// power law, which holds the power law, from chi-square with one degree of freedom.
  std::optional<double> p;
  double log_likelihood = 0;
  std::vector<std::pair<std::string_view, double>> parameters;

  /// At a level of 0.1.
  bool favoured() const { return p && lr < 0 && *p <= 0.1; }
  bool rejected() const { return p && lr > 0 && *p <= 0.1; }
};

/// All four, in their order. The fit's alpha is finite.
std::vector<Alternative> compare(const Sample& sample, const Fit& fit, bool discrete);

/// Of one log-likelihood ratio for each distinct value, each as often as `counts` says.
struct Comparison {
  double lr = 0;
  std::optional<double> vuong;  ///< none where all ratios are equal
  std::optional<double> p;
};
Comparison vuong_test(std::span<const double> ratios, std::span<const double> counts);
/// The p of an alternative that holds the power law.
double nested_p(double lr);

}  // namespace kvreplay::powerlaw
