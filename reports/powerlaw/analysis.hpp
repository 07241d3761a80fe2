// All that is said of one set of numbers: fit, goodness, alternatives, concentration, verdict.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/powerlaw/alternatives.hpp"
#include "reports/powerlaw/bootstrap.hpp"
#include "reports/powerlaw/ccdf.hpp"
#include "reports/powerlaw/fit.hpp"

namespace kvreplay::powerlaw {

struct Question {
  Method method;
  std::uint64_t replicates = 0;  ///< of the bootstrap; 0: goodness of fit is not tested
  std::uint64_t seed = 0;
};

enum class Verdict {
  supported,          ///< p above 0.1, and no alternative favoured
  not_tested,         ///< no alternative favoured, and goodness of fit not asked for
  other_fits_better,  ///< an alternative is favoured, at a level of 0.1
  ruled_out,          ///< p of 0.1 or less, and no alternative favoured
  too_little_data     ///< fewer than kLeastTail numbers in the tail, or no fit at all
};

/// Below it estimates are not reliable, by the rule of thumb of Clauset, Shalizi and Newman.
constexpr std::uint64_t kLeastTail = 50;

/// "power law supported", "not ruled out, goodness not tested", "another family fits better",
/// "power law ruled out", "too little tail data"
std::string_view name(Verdict verdict);

constexpr std::array<double, 4> kTopParts = {0.01, 0.05, 0.1, 0.2};

struct Analysis {
  std::uint64_t numbers = 0;  ///< given; those that are used and those left out, by reason:
  std::uint64_t used = 0;
  std::uint64_t nan = 0;
  std::uint64_t infinite = 0;
  std::uint64_t not_positive = 0;
  std::size_t distinct = 0;
  std::optional<double> given_xmin;
  std::vector<CcdfPoint> ccdf;  ///< of those that are used

  Scan scan;  ///< without a fit: too few distinct values, or none from the given xmin on
  std::optional<double> log_likelihood;
  std::vector<Alternative> alternatives;  ///< empty without a fit of finite alpha
  std::optional<Goodness> goodness;

  // Of the finite numbers that are not negative, zeros too.
  double gini = 0;
  std::array<double, kTopParts.size()> top_shares{};

  Verdict verdict = Verdict::too_little_data;
  /// The favoured alternative of the largest likelihood.
  std::optional<Family> favoured() const;
  /// The verdict as a sentence with its reason.
  std::string in_words() const;
};

/// Runs in the caller's TBB arena. None: stopped. `done` as in bootstrap().
std::optional<Analysis> analyse(std::span<const double> numbers, const Question& question,
                                const std::function<bool()>& stopped,
                                const std::function<void(std::uint64_t)>& done);

/// Of --values: on the caller's thread and others. None: stopped.
std::optional<Analysis> analyse_values(std::span<const double> numbers, const Question& question,
                                       unsigned threads, const RunControl& control);

/// What stands beside every verdict, on any numbers and on accumulated attention.
extern const std::string_view caveat_of_values;
extern const std::string_view caveat_of_attention;

}  // namespace kvreplay::powerlaw
