#include "reports/claims/estimates.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>

#include "policies/random_numbers.hpp"
#include "reports/claims/share_interval.hpp"
#include "reports/quantile.hpp"

namespace kvreplay::claims {
namespace {

using agreement::Interval;
using agreement::kLeastPoints;

/// What is drawn at once, a head or a layer: its points by trace.
using Unit = std::vector<Point>;
/// Units are drawn with replacement within each stratum.
using Strata = std::vector<std::vector<Unit>>;

void add(Point& sum, const Point& point) {
  sum.sum += point.sum;
  sum.count += point.count;
}

Unit sum_by_trace(std::span<const Unit> units) {
  Unit sums(units.front().size());
  for (const auto& unit : units) {
    for (std::size_t trace = 0; trace < unit.size(); ++trace) add(sums[trace], unit[trace]);
  }
  return sums;
}

/// Layers in one stratum, or of fewer than 5 the heads of each in one of its own. Units without
/// points are left out.
Strata strata_of(std::span<const Sample> traces) {
  std::map<std::uint32_t, std::vector<Unit>> layers;
  for (std::size_t trace = 0; trace < traces.size(); ++trace) {
    std::map<std::uint32_t, std::size_t> heads;  // seen so far
    for (std::size_t at = 0; at < traces[trace].points.size(); ++at) {
      const auto layer = traces[trace].layers[at];
      auto& units = layers[layer];
      const auto head = heads[layer]++;
      if (head == units.size()) units.emplace_back(traces.size());
      units[head][trace] = traces[trace].points[at];
    }
  }
  for (auto& [layer, units] : layers) {
    std::erase_if(units, [](const Unit& unit) { return sum_of(unit).count == 0; });
  }
  std::erase_if(layers, [](const auto& layer) { return layer.second.empty(); });
  Strata heads;
  std::vector<Unit> whole;
  for (auto& [layer, units] : layers) {
    whole.push_back(sum_by_trace(units));
    heads.push_back(std::move(units));
  }
  return whole.size() < kLeastPoints ? heads : Strata{whole};
}

bool can_be_drawn(const Strata& strata) {
  return !strata.empty() && std::all_of(strata.begin(), strata.end(), [](const auto& stratum) {
    return stratum.size() >= kLeastPoints;
  });
}

/// Over those of the traces in the list that have points.
std::optional<double> mean_over(std::span<const std::size_t> traces, const Unit& sums) {
  Point means;
  for (const auto trace : traces) {
    const auto& [sum, count] = sums[trace];
    if (count > 0) add(means, {sum / count, 1});
  }
  if (means.count == 0) return std::nullopt;
  return means.sum / means.count;
}

std::vector<std::size_t> all_of(std::size_t traces) {
  std::vector<std::size_t> all(traces);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::optional<double> mean_of(const Strata& strata, std::size_t traces) {
  Unit sums(traces);
  for (const auto& stratum : strata) {
    const auto of_stratum = sum_by_trace(stratum);
    for (std::size_t trace = 0; trace < traces; ++trace) add(sums[trace], of_stratum[trace]);
  }
  return mean_over(all_of(traces), sums);
}

std::vector<std::size_t> drawn_traces(std::size_t count, RandomNumbers& random) {
  auto traces = all_of(count);
  if (count < kLeastPoints) return traces;
  for (auto& trace : traces) trace = random.below(count);
  return traces;
}

std::optional<double> drawn_mean(const Strata& strata, std::span<const std::size_t> traces,
                                 RandomNumbers& random) {
  Unit sums(strata.front().front().size());
  for (const auto& stratum : strata) {
    for (std::size_t drawn = 0; drawn < stratum.size(); ++drawn) {
      const auto& unit = stratum[random.below(stratum.size())];
      for (std::size_t trace = 0; trace < unit.size(); ++trace) add(sums[trace], unit[trace]);
    }
  }
  return mean_over(traces, sums);
}

/// Of what `draw` gives; replicates that drew no points are left out.
template <class Draw>
std::optional<Interval> bootstrapped(std::uint64_t seed, const Draw& draw) {
  std::vector<double> means;
  for (std::uint32_t replicate = 0; replicate < agreement::Bootstrap{}.replicates; ++replicate) {
    RandomNumbers random(seed ^ mix(replicate + std::uint64_t{1}));
    if (const std::optional<double> mean = draw(random)) means.push_back(*mean);
  }
  if (means.empty()) return std::nullopt;
  std::sort(means.begin(), means.end());
  const double outside = (1 - agreement::kLevel) / 2;
  return Interval{quantile(means, outside), quantile(means, 1 - outside)};
}

std::optional<Estimate> estimate_of_steps(std::span<const Sample> traces, std::uint64_t seed) {
  std::vector<std::vector<Point>> points;
  for (const auto& trace : traces) points.push_back(trace.points);
  return agreement::estimate(points, {.seed = seed, .least_traces = kLeastPoints});
}

/// Of a share, from what its parts differ by.
double variance(std::span<const Point> parts, double share) {
  const auto all = sum_of(parts);
  double squares = 0;
  for (const auto& part : parts) squares += std::pow(part.sum - share * part.count, 2);
  const auto count = static_cast<double>(parts.size());
  return count / (count - 1) * squares / (all.count * all.count);
}

double t_quantile(double degrees) {
  return boost::math::quantile(boost::math::students_t(degrees), (1 + agreement::kLevel) / 2);
}

/// A share with the number of independent things that would tell as much: at most the heads of one
/// trace; the layers, or of few traces heads, where all are alike.
Share share_of(const Strata& strata, std::size_t traces) {
  std::vector<Point> units;
  Unit by_trace(traces);
  for (const auto& stratum : strata) {
    for (const auto& unit : stratum) {
      units.push_back(sum_of(unit));
      for (std::size_t trace = 0; trace < traces; ++trace) add(by_trace[trace], unit[trace]);
    }
  }
  const auto [are, count] = sum_of(units);
  const double share = are / count;
  const bool texts = traces >= kLeastPoints;
  const auto drawn = static_cast<double>(units.size());
  if (are == 0 || are == count) {
    return {share, texts ? std::min(drawn, static_cast<double>(traces)) : drawn};
  }
  const double heads = std::max(2.0, count / static_cast<double>(traces));
  if (units.size() < 2) return {share, 1};
  const double clustered = variance(units, share) + (texts ? variance(by_trace, share) : 0);
  const double alone = share * (1 - share) / (heads - 1);
  const double lost = std::pow(t_quantile(heads - 1) / t_quantile(drawn - 1), 2);
  return {share, std::min(heads, heads * alone / clustered) * lost};
}

/// In as many points, each of as many that follow one another.
std::vector<Point> folded(const std::vector<Point>& points, std::size_t count) {
  if (count == 0 || points.size() % count != 0) {
    throw std::logic_error("figures of a claim that are of different places");
  }
  const auto each = points.size() / count;
  std::vector<Point> sums;
  for (std::size_t at = 0; at < count; ++at) {
    sums.push_back(sum_of(std::span(points).subspan(at * each, each)));
  }
  return sums;
}

/// Place by place, each of the same weight.
Sample difference(const Sample& of, const Sample& minus) {
  const auto& coarser = of.points.size() < minus.points.size() ? of : minus;
  const std::size_t count = coarser.points.size();
  const auto first = folded(of.points, count);
  const auto second = folded(minus.points, count);
  Sample found{.points = {}, .layers = coarser.layers};
  for (std::size_t at = 0; at < count; ++at) {
    const bool both = first[at].count > 0 && second[at].count > 0;
    found.points.push_back(
        both ? Point{first[at].sum / first[at].count - second[at].sum / second[at].count, 1}
             : Point{});
  }
  return found;
}

bool are_of_one_place(const Sample& of, const Sample& minus) {
  auto first = of.layers;
  auto second = minus.layers;
  first.erase(std::unique(first.begin(), first.end()), first.end());
  second.erase(std::unique(second.begin(), second.end()), second.end());
  return first == second;
}

/// Of being the one and being the other, over all traces; 0 where all are or none is.
double correlation(std::span<const Sample> of, std::span<const Sample> minus) {
  double count = 0;
  double both = 0;
  double first = 0;
  double second = 0;
  for (std::size_t trace = 0; trace < of.size(); ++trace) {
    for (std::size_t at = 0; at < of[trace].points.size(); ++at) {
      const auto& one = of[trace].points[at];
      const auto& other = minus[trace].points[at];
      if (one.count == 0 || other.count == 0) continue;
      count += 1;
      first += one.sum;
      second += other.sum;
      both += one.sum * other.sum;
    }
  }
  const double varies = first * (count - first) * second * (count - second);
  return varies > 0 ? (count * both - first * second) / std::sqrt(varies) : 0;
}

}  // namespace

Point sum_of(std::span<const Point> points) {
  Point sum;
  for (const auto& point : points) add(sum, point);
  return sum;
}

std::optional<Estimate> estimate(std::span<const Sample> traces, std::uint64_t seed) {
  if (traces.front().layers.empty()) return estimate_of_steps(traces, seed);
  const auto strata = strata_of(traces);
  const auto mean = mean_of(strata, traces.size());
  if (!mean) return std::nullopt;
  Estimate found{.value = *mean, .interval = {}};
  if (traces.front().of_yes_or_no) {
    found.interval = exact_interval(share_of(strata, traces.size()));
  } else if (can_be_drawn(strata)) {
    found.interval = bootstrapped(seed, [&](RandomNumbers& random) {
      return drawn_mean(strata, drawn_traces(traces.size(), random), random);
    });
  }
  return found;
}

std::optional<Estimate> estimate_difference(std::span<const Sample> of,
                                            std::span<const Sample> minus, std::uint64_t seed) {
  if (are_of_one_place(of.front(), minus.front())) {
    std::vector<Sample> differences;
    for (std::size_t trace = 0; trace < of.size(); ++trace) {
      differences.push_back(difference(of[trace], minus[trace]));
    }
    auto found = estimate(differences, seed);
    if (found && of.front().of_yes_or_no && minus.front().of_yes_or_no) {
      found->interval =
          difference_interval(share_of(strata_of(of), of.size()),
                              share_of(strata_of(minus), minus.size()), correlation(of, minus));
    }
    return found;
  }
  const auto first = strata_of(of);
  const auto second = strata_of(minus);
  const auto mean = mean_of(first, of.size());
  const auto other = mean_of(second, minus.size());
  if (!mean || !other) return std::nullopt;
  Estimate found{.value = *mean - *other, .interval = {}};
  if (can_be_drawn(first) && can_be_drawn(second)) {
    found.interval = bootstrapped(seed, [&](RandomNumbers& random) -> std::optional<double> {
      const auto traces = drawn_traces(of.size(), random);
      const auto one = drawn_mean(first, traces, random);
      const auto two = drawn_mean(second, traces, random);
      if (!one || !two) return std::nullopt;
      return *one - *two;
    });
  }
  return found;
}

}  // namespace kvreplay::claims
