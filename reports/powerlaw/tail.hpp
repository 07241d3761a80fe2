// A fitted tail as the alternatives see it.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "reports/powerlaw/alternatives.hpp"

namespace kvreplay::powerlaw {

/// Distinct values, with means over all numbers.
struct Tail {
  Tail(const Sample& sample, const Fit& fit) : xmin(fit.xmin) {
    for (std::size_t at = fit.first; at < sample.distinct(); ++at) {
      x.push_back(sample.values[at]);
      y.push_back(std::log(sample.values[at] / fit.xmin));
      counts.push_back(sample.count(at));
      n += counts.back();
    }
    mean_log_x = mean([&](std::size_t at) { return std::log(x[at]); });
    mean_y = mean([&](std::size_t at) { return y[at]; });
  }

  double mean(const std::function<double(std::size_t)>& of) const {
    double sum = 0;
    for (std::size_t at = 0; at < x.size(); ++at) sum += counts[at] * of(at);
    return sum / n;
  }

  double xmin;
  double n = 0;
  std::vector<double> x;
  std::vector<double> y;  ///< ln(x / xmin)
  std::vector<double> counts;
  double mean_log_x = 0;
  double mean_y = 0;
};

/// An alternative at its best: ln of its probability, or of its density in y, at each value.
struct FittedFamily {
  bool collapsed = false;
  std::vector<double> log_density;
  std::vector<std::pair<std::string_view, double>> parameters;
};

FittedFamily fit_continuous(const Tail& tail, Family family);
FittedFamily fit_discrete(const Tail& tail, const Fit& fit, Family family);

}  // namespace kvreplay::powerlaw
