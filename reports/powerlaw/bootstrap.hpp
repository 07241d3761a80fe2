// Whether a power law as good as the fitted one would look no better: the semi-parametric bootstrap
// of Clauset, Shalizi and Newman.
//
// A replicate has as many numbers as the sample. Each is, with probability n_tail/n, drawn from
// the fitted tail, else one of the numbers below xmin, all alike; xmin and alpha are fitted anew,
// unless xmin was given. p is the share of replicates whose KS distance is not below the sample's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "reports/powerlaw/fit.hpp"
#include "traces/run_control.hpp"

namespace kvreplay::powerlaw {

/// Enough to know p to within `precision`: 1 / (4 precision^2).
std::uint64_t replicates_for(double precision);

struct Goodness {
  std::uint64_t replicates = 0;
  std::uint64_t as_far = 0;        ///< whose KS distance is not below the sample's
  std::uint64_t not_fittable = 0;  ///< with too few distinct values; they count as nearer

  double p() const { return static_cast<double>(as_far) / static_cast<double>(replicates); }
};

/// Replicates are spread over the threads of the caller's TBB arena; each has random numbers of its
/// own, so that the outcome does not depend on how many there are. None: stopped.
/// `done(count)` is told of replicates, from any thread.
std::optional<Goodness> bootstrap(const Sample& sample, const Fit& fit, const Method& method,
                                  std::uint64_t replicates, std::uint64_t seed,
                                  const std::function<bool()>& stopped,
                                  const std::function<void(std::uint64_t)>& done);

}  // namespace kvreplay::powerlaw
