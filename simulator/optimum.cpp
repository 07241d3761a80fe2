#include "simulator/optimum.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <stdexcept>

#include "simulator/optimal_evictions.hpp"
#include "simulator/optimal_sets.hpp"
#include "simulator/pooled_rows.hpp"
#include "simulator/unit_worths.hpp"

namespace kvreplay {
namespace {

void check_held(const TraceInfo& info, std::string_view trace, const Objective& objective) {
  if (!info.sampling.all()) {
    throw std::invalid_argument(std::string(trace) + " holds only " + in_words(info.sampling) +
                                ", and an optimum is over all rows; take a trace of all rows");
  }
  if (objective.kind != Objective::Kind::value || info.values || info.norms) return;
  throw std::invalid_argument("objective value needs the norms of the values, which " +
                              std::string(trace) +
                              " does not hold; capture it with --values or --norms");
}

/// Finds the optimum of one unit after the other; one per thread.
class Worker {
 public:
  Worker(const RowSource& source, const OptimumPlan& plan)
      : plan_(plan), worths_(source, plan.replay, plan.objective) {}

  /// By budget; empty: stopped. `evicted` is called at each eviction. Where `lines` is not null,
  /// gets the unit's part of the OptimalSets.
  std::vector<LeastLoss> run(std::size_t unit, const std::function<bool()>& stopped,
                             const std::function<void()>& evicted, std::string* lines) {
    LossTable losses(plan_.replay.tokens);
    std::vector<LeastLoss> found(plan_.budgets.size());
    const auto read = [&](std::uint32_t i, std::span<const double> worths, std::uint32_t samples) {
      count(i, samples, found);
      if (i < plan_.first_worth()) return;
      losses.add(i, worths);
      recover(worths.first(i), found);
    };
    if (!worths_.each(plan_.replay.units[unit], stopped, read)) return {};
    losses.finish();
    OptimalEvictions evictions(losses, plan_.full_rows);
    SetsWriter writer(plan_, unit);
    for (std::size_t at = found.size(); at-- > 0;) {
      const std::uint32_t held = plan_.budgets[at].held;
      while (evictions.budget() > held) {
        if (stopped()) return {};
        evictions.narrow();
        evicted();
      }
      found[at].loss = evictions.loss();
      if (lines != nullptr) *lines += writer.line(at, found[at].loss, evictions.last_seen());
    }
    return found;
  }

 private:
  void count(std::uint32_t i, std::uint32_t samples, std::vector<LeastLoss>& found) const {
    for (std::size_t at = 0; at < found.size(); ++at) {
      if (plan_.budgets[at].first_row > i) break;  // they ascend
      found[at].samples += samples;
    }
  }

  /// What a row gives to all earlier tokens but the k best.
  void recover(std::span<const double> earlier, std::vector<LeastLoss>& found) {
    sorted_.assign(earlier.begin(), earlier.end());
    std::sort(sorted_.begin(), sorted_.end());  // the least first: sums of them lose no digits
    double loss = 0;
    std::size_t left = sorted_.size();
    for (std::size_t at = found.size(); at-- > 0;) {
      for (; left > plan_.budgets[at].held; --left) loss += sorted_[sorted_.size() - left];
      found[at].recoverable += loss;
    }
  }

  const OptimumPlan& plan_;
  UnitWorths worths_;
  std::vector<double> sorted_;
};

}  // namespace

std::uint32_t first_measured(const ReplayPlan& plan, const ResolvedBudget& budget,
                             std::uint32_t full_rows) {
  CellPlan cell{.policy = {}, .budget = budget, .traits = {}};
  cell.traits.whole_prompt = full_rows > 0;
  return first_measured(plan, cell);
}

std::uint32_t OptimumPlan::first_worth() const {
  return std::max(full_rows, replay.steps == Steps::decoded ? replay.prompt_tokens : 0);
}

std::uint32_t OptimumPlan::evictions() const {
  const std::uint32_t least = budgets.front().held;
  return replay.tokens - 1 > least ? replay.tokens - 1 - least : 0;
}

OptimumPlan plan_optimum(const TraceInfo& info, std::string_view trace, ReplayRequest request,
                         const Objective& objective) {
  check_held(info, trace, objective);
  const auto asked = std::move(request.budgets);
  // A policy that loses nothing has a plan whatever the steps.
  request.policies = parse_policies("full");
  request.budgets = parse_budgets("100%");
  OptimumPlan plan{
      .replay = plan_replay(info, trace, request), .objective = objective, .budgets = {}};
  plan.replay.cells.clear();
  if (request.prefill == Prefill::full) plan.full_rows = plan.replay.prompt_tokens;
  const auto budgets = resolve_budgets(asked, info.tokens, plan.replay.prompt_tokens, trace);
  for (const auto& budget : budgets) {
    plan.budgets.push_back(
        {budget, budget.budget.tokens, first_measured(plan.replay, budget, plan.full_rows)});
  }
  std::sort(plan.budgets.begin(), plan.budgets.end(),
            [](const auto& one, const auto& other) { return one.held < other.held; });
  return plan;
}

LeastLoss& LeastLoss::operator+=(const LeastLoss& other) {
  loss += other.loss;
  recoverable += other.recoverable;
  samples += other.samples;
  return *this;
}

std::vector<LeastLoss> OptimumOutcome::total(const OptimumPlan& plan,
                                             std::optional<std::uint32_t> layer) const {
  std::vector<LeastLoss> sums(plan.budgets.size());
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    if (units[unit].empty() || (layer && plan.replay.units[unit].layer != *layer)) continue;
    for (std::size_t at = 0; at < sums.size(); ++at) sums[at] += units[unit][at];
  }
  return sums;
}

OptimumOutcome find_optimum(const RowSource& source, const OptimumPlan& plan, unsigned threads,
                            const RunControl& control, OptimalSets* sets) {
  const std::size_t units = plan.replay.units.size();
  OptimumOutcome outcome;
  outcome.units.resize(units);
  std::atomic<std::size_t> next_unit{0};
  std::atomic<bool> failed{false};
  const auto stopped = [&] { return failed.load(std::memory_order_relaxed) || control.stopped(); };
  std::mutex mutex;
  std::uint64_t evictions = 0;
  const auto evicted = [&] {
    const std::scoped_lock lock(mutex);
    control.report("evictions", ++evictions, std::uint64_t{plan.evictions()} * units);
  };
  const auto work = [&] {
    Worker worker(source, plan);
    for (std::size_t unit = next_unit++; unit < units && !stopped(); unit = next_unit++) {
      std::string lines;
      auto found = worker.run(unit, stopped, evicted, sets != nullptr ? &lines : nullptr);
      if (found.empty()) return;
      if (sets != nullptr) sets->add(unit, std::move(lines));
      const std::scoped_lock lock(mutex);
      outcome.units[unit] = std::move(found);
      ++outcome.units_done;
    }
  };
  on_threads(std::min<std::size_t>(threads, units), failed, work);
  return outcome;
}

std::uint64_t estimated_bytes(const OptimumPlan& plan, unsigned threads) {
  const std::uint64_t n = plan.replay.tokens;
  const std::uint64_t units = plan.replay.units.size();
  const std::uint64_t workers = std::min<std::uint64_t>(threads, units);
  const std::uint64_t slabs = 2 * kSlabValues * sizeof(float);
  return workers * (LossTable::bytes(n) + OptimalEvictions::bytes(n) + slabs) +
         units * plan.budgets.size() * sizeof(LeastLoss);
}

}  // namespace kvreplay
