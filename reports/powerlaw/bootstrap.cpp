#include "reports/powerlaw/bootstrap.hpp"

#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "policies/random_numbers.hpp"
#include "reports/powerlaw/hurwitz_zeta.hpp"

namespace kvreplay::powerlaw {
namespace {

/// The integers of a fitted tail by the share of them that lies above.
class ZetaTail {
 public:
  ZetaTail(double alpha, double xmin)
      : alpha_(alpha), xmin_(xmin), whole_(hurwitz_zeta(alpha, xmin)) {
    for (std::size_t at = 0; at < kKnown; ++at) {
      known_.push_back(at_least(xmin + static_cast<double>(at)));
    }
  }

  /// The largest x that a share of `share` or more lies at or above, which is `from` or larger.
  double value(double share, double from) const {
    double x = from;
    while (x - xmin_ + 1 < kKnown && known(x + 1) >= share) ++x;
    if (x - xmin_ + 1 < kKnown) return x;
    double step = 1;
    while (at_least(x + step) >= share) {
      x += step;
      step *= 2;
    }
    for (; step > 1 && x + step / 2 > x; step /= 2) {
      if (at_least(x + step / 2) >= share) x += step / 2;
    }
    return x;
  }

 private:
  static constexpr std::size_t kKnown = 4096;
  double known(double x) const { return known_[static_cast<std::size_t>(x - xmin_)]; }
  double at_least(double x) const { return hurwitz_zeta(alpha_, x) / whole_; }

  double alpha_;
  double xmin_;
  double whole_;
  std::vector<double> known_;  ///< of the first integers
};

/// Draws replicates, in order of size: sorting them would take longer than all the rest.
class Replicates {
 public:
  Replicates(const Sample& sample, const Fit& fit, const Method& method)
      : sample_(sample), fit_(fit), discrete_(method.discrete) {
    if (discrete_) zeta_.emplace(fit.alpha, fit.xmin);
    for (std::size_t at = 0; at < fit.first; ++at) {
      value_of_.insert(value_of_.end(), sample.below[at + 1] - sample.below[at], at);
    }
  }

  void draw(std::uint64_t seed, Sample& replicate, std::vector<std::uint64_t>& times) const {
    RandomNumbers random(seed);
    replicate.values.clear();
    replicate.logs.clear();
    replicate.below.clear();
    times.assign(fit_.first, 0);
    // Places of the sorted numbers: those from `body` on are the tail.
    const std::uint64_t body = sample_.below[fit_.first];
    std::uint64_t in_tail = 0;
    for (std::uint64_t at = 0; at < sample_.size(); ++at) {
      const std::uint64_t place = random.below(sample_.size());
      if (place >= body) {
        ++in_tail;
      } else {
        ++times[value_of_[place]];
      }
    }
    std::uint64_t drawn = 0;
    for (std::size_t at = 0; at < fit_.first; ++at) {
      if (times[at] == 0) continue;
      replicate.logs.push_back(sample_.logs[at]);
      if (discrete_) replicate.values.push_back(sample_.values[at]);
      replicate.below.push_back(drawn);
      drawn += times[at];
    }
    // The gaps between sorted exponential numbers are exponential: the i-th of m, of mean
    // 1 / (m - i).
    double exponential = 0;
    double value = fit_.xmin;
    const double log_xmin = std::log(fit_.xmin);
    for (std::uint64_t left = in_tail; left > 0; --left) {
      exponential += random.exponential() / static_cast<double>(left);
      double log_value = log_xmin + exponential / (fit_.alpha - 1);
      if (discrete_) {
        value = zeta_->value(std::exp(-exponential), value);
        if (replicate.values.empty() || replicate.values.back() != value) {
          replicate.values.push_back(value);
          replicate.logs.push_back(std::log(value));
          replicate.below.push_back(drawn);
        }
      } else if (replicate.logs.empty() || replicate.logs.back() != log_value) {
        replicate.logs.push_back(log_value);
        replicate.below.push_back(drawn);
      }
      ++drawn;
    }
    replicate.below.push_back(drawn);
  }

 private:
  const Sample& sample_;
  const Fit& fit_;
  bool discrete_;
  std::optional<ZetaTail> zeta_;
  std::vector<std::size_t> value_of_;  ///< by the place of a number below xmin among all
};

}  // namespace

std::uint64_t replicates_for(double precision) {
  return static_cast<std::uint64_t>(std::ceil(0.25 / (precision * precision) - 1e-9));
}

std::optional<Goodness> bootstrap(const Sample& sample, const Fit& fit, const Method& method,
                                  std::uint64_t replicates, std::uint64_t seed,
                                  const std::function<bool()>& stopped,
                                  const std::function<void(std::uint64_t)>& done) {
  struct Scratch {
    explicit Scratch(const Method& method) : fitter(method) {}
    Fitter fitter;
    Sample replicate;
    std::vector<std::uint64_t> times;
  };
  const Replicates source(sample, fit, method);
  tbb::enumerable_thread_specific<Scratch> scratches([&] { return Scratch(method); });
  std::atomic<std::uint64_t> as_far{0};
  std::atomic<std::uint64_t> not_fittable{0};
  // Only this loop's own pieces may run on a thread that waits in it.
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(std::uint64_t{0}, replicates, [&](std::uint64_t at) {
      if (stopped()) return;
      Scratch& scratch = scratches.local();
      source.draw(mix(seed + (at + 1) * 0x9e3779b97f4a7c15U), scratch.replicate, scratch.times);
      const auto farther = scratch.fitter.as_far(scratch.replicate, fit.ks, fit.xmin);
      if (!farther) {
        ++not_fittable;
      } else if (*farther) {
        ++as_far;
      }
      done(1);
    });
  });
  if (stopped()) return std::nullopt;
  return Goodness{replicates, as_far, not_fittable};
}

}  // namespace kvreplay::powerlaw
