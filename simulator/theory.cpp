#include "simulator/theory.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>
#include <stdexcept>

#include "policies/random_numbers.hpp"
#include "simulator/pooled_rows.hpp"
#include "simulator/unit_worths.hpp"

namespace kvreplay {

const std::array<ScoreFunction, 3> score_functions = {
    {{"z", [](double z) { return z; }},
     {"sqrt(z+1)", [](double z) { return std::sqrt(z + 1); }},
     {"log(z+1)", [](double z) { return std::log1p(z); }}}};

namespace {

/// Greedy eviction at one budget, step by step.
class Greedy {
 public:
  Greedy(std::uint32_t tokens, const OptimumPlan::At& at, const LowestLeaves& rule)
      : budget_(at.held), first_row_(at.first_row), rule_(rule), scores_(tokens, 0.0) {}

  /// `row` sums to 1, or to 0.
  void step(std::uint32_t i, std::span<const double> row) {
    held_.push_back(i);
    double visible = 0;
    for (const auto token : held_) visible += row[token];
    // A row that is all zeros loses nothing, as in a replay.
    const bool empty = std::all_of(row.begin(), row.end(), [](double p) { return p == 0; });
    if (i >= first_row_) found_.greedy += empty ? 1 : visible;
    const double before = held_.size() > budget_ ? value_of_held_ : 0;
    double now = 0;  // of what was held
    for (const auto token : held_) {
      scores_[token] += visible > 0 ? row[token] / visible : 0;
      if (token != i) now += scores_[token];
    }
    if (held_.size() <= budget_) {
      value_of_held_ = best_ = now + scores_[i];
      return;
    }
    evict(i);
    value_of_held_ = 0;
    for (const auto token : held_) value_of_held_ += scores_[token];
    const double best_before = best_;
    best_ = best_of_all(i + 1);
    for (std::size_t h = 0; h < score_functions.size(); ++h) {
      const auto f = score_functions[h].of;
      Drift drift;
      if (f(before) > 0) drift.theta = std::max(0.0, 1 - f(now) / f(before));
      if (f(best_before) > 0) drift.gamma = std::max(0.0, f(best_) / f(best_before) - 1);
      found_.drift[h].merge(drift);
    }
    if (best_ > 0) found_.score_ratio = std::min(found_.score_ratio, value_of_held_ / best_);
  }

  std::span<const double> scores() const { return scores_; }
  const TheoryOfUnit::AtBudget& found() const { return found_; }

 private:
  /// The lowest of those that may leave, of equals the oldest.
  void evict(std::uint32_t i) {
    const auto first = std::lower_bound(held_.begin(), held_.end(), rule_.sinks);
    const std::uint32_t newest = i + 1 - std::min(rule_.recent, i + 1);
    const auto last = std::lower_bound(first, held_.end(), newest);
    if (first == last) throw std::logic_error("a greedy policy protects all that it holds");
    held_.erase(std::min_element(
        first, last, [&](auto one, auto other) { return scores_[one] < scores_[other]; }));
  }

  /// The sum of the k highest scores of the first `tokens`.
  double best_of_all(std::size_t tokens) {
    sorted_.assign(scores_.begin(), scores_.begin() + static_cast<std::ptrdiff_t>(tokens));
    const auto end = sorted_.begin() + static_cast<std::ptrdiff_t>(budget_);
    std::nth_element(sorted_.begin(), end, sorted_.end(), std::greater<>());
    return std::accumulate(sorted_.begin(), end, 0.0);
  }

  std::uint32_t budget_;
  std::uint32_t first_row_;
  LowestLeaves rule_;
  std::vector<std::uint32_t> held_;  // ascending
  std::vector<double> scores_;       // what has left keeps its last
  std::vector<double> sorted_;
  double value_of_held_ = 0;
  double best_ = 0;
  TheoryOfUnit::AtBudget found_;
};

TheoryOfUnit look_at(const UnitPlan& unit, const TheoryPlan& plan,
                     const std::vector<LeastLoss>& least, UnitWorths& rows, std::uint32_t samples,
                     std::uint64_t seed, const std::function<bool()>& stopped) {
  constexpr std::uint32_t kSteps = 16;
  const std::uint32_t n = plan.optimum.replay.tokens;
  Setting place;
  place.layer = unit.layer;
  place.unit = unit.index;
  std::mt19937_64 random(unit_seed(seed, place));
  std::vector<Greedy> greedy;
  for (std::size_t at = 0; at < plan.rules.size(); ++at) {
    greedy.emplace_back(n, plan.optimum.budgets[at], plan.rules[at]);
  }
  TheoryOfUnit theory;
  std::uint32_t drawn = 0;
  const auto use = [&](std::uint32_t i, std::span<const double> row, std::uint32_t) {
    for (auto& one : greedy) one.step(i, row);
    // As many samples as steps: the part of them that is due, at the end of each part.
    const std::uint64_t part = std::uint64_t{i + 1} * kSteps / n;
    const auto due = static_cast<std::uint32_t>(part * samples / kSteps);
    for (; drawn < due; ++drawn) {
      const auto& scores = greedy[drawn % greedy.size()].scores();
      const auto sets = draw_sets(scores.first(i + std::size_t{1}), random);
      for (std::size_t h = 0; h < score_functions.size(); ++h) {
        theory.submodularity[h].look(score_functions[h].of, sets);
      }
    }
  };
  if (!rows.each(unit, stopped, use)) return {};
  for (std::size_t at = 0; at < greedy.size(); ++at) {
    theory.budgets.push_back(greedy[at].found());
    theory.budgets.back().optimum = static_cast<double>(least[at].samples) - least[at].loss;
  }
  return theory;
}

}  // namespace

SampledSets draw_sets(std::span<const double> scores, std::mt19937_64& random) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t larger = random() % order.size();
  const std::size_t smaller = larger == 0 ? 0 : random() % (larger + 1);
  SampledSets sets;
  for (std::size_t at = 0; at <= larger; ++at) {
    std::swap(order[at], order[at + random() % (order.size() - at)]);
    const double score = scores[order[at]];
    if (at == larger) {
      sets.token = score;
    } else {
      sets.larger += score;
      if (at < smaller) sets.smaller += score;
    }
  }
  return sets;
}

void Submodularity::look(const std::function<double(double)>& h, const SampledSets& sets) {
  const double at_smaller = h(sets.smaller + sets.token) - h(sets.smaller);
  const double at_larger = h(sets.larger + sets.token) - h(sets.larger);
  const double rounding = 1e-12 * (1 + std::abs(h(sets.larger + sets.token)));
  ++samples;
  if (at_larger > at_smaller + rounding) {
    ++violations;
    worst = std::max(worst, at_larger - at_smaller);
  }
  if (at_smaller <= rounding) return;
  ++gaps;
  if (std::abs(at_smaller - at_larger) > rounding) gap_sum += 1 - at_larger / at_smaller;
}

Submodularity& Submodularity::operator+=(const Submodularity& other) {
  samples += other.samples;
  violations += other.violations;
  worst = std::max(worst, other.worst);
  gap_sum += other.gap_sum;
  gaps += other.gaps;
  return *this;
}

void Drift::merge(const Drift& other) {
  theta = std::max(theta, other.theta);
  gamma = std::max(gamma, other.gamma);
}

TheoryPlan plan_theory(const TraceInfo& info, std::string_view trace,
                       const ReplayRequest& request) {
  TheoryPlan plan{.optimum = plan_optimum(info, trace, request, Objective{}),
                  .policy = request.policies.at(0).text,
                  .rules = {}};
  const ReplayPlan replay = plan_replay(info, trace, request);
  for (std::size_t at = 0; at < replay.cells.size(); ++at) {
    const Traits& traits = replay.cells[at].traits;
    const bool greedy = traits.lowest_leaves && traits.lowest_leaves->by == LowestLeaves::By::sum &&
                        traits.rows == RowForm::renormalised &&
                        traits.capacity == plan.optimum.budgets[at].held;
    if (!greedy) {
      throw std::invalid_argument(
          "policy " + plan.policy +
          " is not greedy: the theory is of those that hold k tokens and evict the lowest sum of "
          "renormalised rows; take h2o-figure, h2o or a composition of recent and heavy tokens");
    }
    plan.rules.push_back(*traits.lowest_leaves);
  }
  return plan;
}

std::vector<TheoryOfUnit> check_theory(const RowSource& source, const TheoryPlan& plan,
                                       std::uint32_t samples, std::uint64_t seed, unsigned threads,
                                       const RunControl& control) {
  const ReplayPlan& replay = plan.optimum.replay;
  const auto optimum = find_optimum(source, plan.optimum, threads, control);
  const std::size_t units = replay.units.size();
  std::vector<TheoryOfUnit> theories(units);
  std::atomic<std::size_t> next_unit{0};
  std::atomic<bool> failed{false};
  const auto stopped = [&] { return failed.load(std::memory_order_relaxed) || control.stopped(); };
  std::mutex mutex;
  std::uint64_t done = 0;
  const auto work = [&] {
    UnitWorths rows(source, replay, plan.optimum.objective);
    for (std::size_t unit = next_unit++; unit < units && !stopped(); unit = next_unit++) {
      if (optimum.units[unit].empty()) continue;
      auto theory =
          look_at(replay.units[unit], plan, optimum.units[unit], rows, samples, seed, stopped);
      const std::scoped_lock lock(mutex);
      theories[unit] = std::move(theory);
      control.report("heads", ++done, units);
    }
  };
  on_threads(std::min<std::size_t>(threads, units), failed, work);
  return theories;
}

}  // namespace kvreplay
