// The power law fitted to a tail: Clauset, Shalizi, Newman (arXiv:0706.1062).
//
// Continuous: density (alpha-1)/xmin (x/xmin)^-alpha for x >= xmin; discrete: probability
// x^-alpha / zeta(alpha, xmin) of the integers x >= xmin. alpha is of the largest likelihood, xmin
// of the smallest KS distance.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "reports/powerlaw/ks.hpp"
#include "reports/powerlaw/sample.hpp"

namespace kvreplay::powerlaw {

/// How to fit. Discrete samples hold integers, and go by KsConvention::integers.
struct Method {
  bool discrete = false;
  KsConvention ks = KsConvention::element;
  std::optional<double> xmin;  ///< given, instead of sought

  KsConvention convention() const { return discrete ? KsConvention::integers : ks; }
};

struct Fit {
  std::size_t first = 0;  ///< of the sample's values, in the tail
  double xmin = 0;
  double alpha = 0;  ///< infinite where all of the tail equals xmin
  std::uint64_t n_tail = 0;
  double ks = 0;
  bool at_bound = false;  ///< a larger alpha would be likelier still, but its sums no doubles

  /// (alpha-1)/sqrt(n_tail)
  double standard_error() const;
};

struct Scan {
  std::optional<Fit> best;       ///< none: too few distinct values
  std::optional<Fit> runner_up;  ///< the xmin of the second smallest KS distance
  std::size_t candidates = 0;
};

/// A candidate is every value with at least this many distinct ones from it on.
constexpr std::size_t kLeastDistinct = 3;

/// Fits tails of many samples. Keeps scratch space; one per thread.
class Fitter {
 public:
  explicit Fitter(const Method& method) : method_(method) {}

  /// Of candidates with equal distances the smallest wins. With a given xmin it is the only one.
  Scan scan(const Sample& sample);
  /// Whether the smallest distance is `ks` or more, of a sample drawn from a fitted tail of this
  /// xmin; it needs `logs` and `below`, and `values` only if it is discrete. None: too few distinct
  /// values.
  std::optional<bool> as_far(const Sample& sample, double ks, double xmin);

 private:
  Fit fit_at(const Sample& sample, std::size_t first, double log_xmin, double xmin, double enough);
  void start(const Sample& sample);

  Method method_;
  KsDistance distance_;
  std::vector<double> log_sums_;  ///< of the numbers from each value on
  std::optional<double> near_;    ///< the last candidate's alpha, which the next one's is near to
};

/// The alpha of the largest likelihood for integers from xmin on, of which the mean logarithm is
/// given; sought from `near` on. None: above largest_zeta_exponent().
std::optional<double> zeta_exponent(double mean_log, double xmin, std::optional<double> near);

/// ln of the likelihood of the fit's tail.
double log_likelihood(const Sample& sample, const Fit& fit, bool discrete);

}  // namespace kvreplay::powerlaw
