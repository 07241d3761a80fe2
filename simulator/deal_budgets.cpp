#include "simulator/deal_budgets.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <stdexcept>

#include "simulator/pooled_rows.hpp"
#include "traces/errors.hpp"

namespace kvreplay {
namespace {

using Surveys = std::vector<UnitSurvey>;  // by unit of the plan

/// What the survey of each of `cells` finds, in the same order.
std::vector<Surveys> survey(const ReplayPlan& plan, const std::vector<const CellPlan*>& cells,
                            const RowSource& source, unsigned threads, const RunControl& control) {
  Surveys places;
  for (const auto& unit : plan.units) places.push_back({unit.layer, unit.index, {}});
  std::vector<Surveys> found(cells.size(), places);
  const bool reads = std::any_of(cells.begin(), cells.end(), [](const CellPlan* cell) {
    return cell->policy.entry->allotment->survey != nullptr;
  });
  if (!reads) return found;
  std::atomic<std::size_t> next_unit{0};
  std::atomic<bool> stop{false};
  const auto stopped = [&] { return stop.load(std::memory_order_relaxed) || control.stopped(); };
  const auto work = [&] {
    PooledRows rows(source, plan);
    for (std::size_t unit = next_unit++; unit < plan.units.size() && !stop; unit = next_unit++) {
      std::vector<std::unique_ptr<Survey>> surveys;
      for (const CellPlan* cell : cells) {
        Setting setting = setting_of(plan, *cell, unit);
        setting.budget.tokens = 0;
        const auto make = cell->policy.entry->allotment->survey;
        surveys.push_back(make == nullptr ? nullptr : make(cell->policy.arguments, setting));
      }
      const auto show = [&](std::uint32_t i, std::span<const double> row) {
        for (const auto& one : surveys) {
          if (one) one->observe(i, row);
        }
      };
      if (!rows.each(plan.units[unit], plan.prompt_tokens, stopped, show)) stop = true;
      for (std::size_t at = 0; at < cells.size(); ++at) {
        if (surveys[at]) found[at][unit].found = surveys[at]->result();
      }
    }
  };
  on_threads(std::min<std::size_t>(threads, plan.units.size()), [&] {
    try {
      work();
    } catch (...) {
      stop = true;
      throw;
    }
  });
  if (stop) throw Interrupted("interrupted before anything was measured");
  return found;
}

/// Units from `first` on that share one budget.
std::size_t sharers(const ReplayPlan& plan, Allotment::Among among, std::size_t first) {
  std::size_t last = first;
  while (last < plan.units.size() &&
         (among != Allotment::Among::layer || plan.units[last].layer == plan.units[first].layer)) {
    ++last;
  }
  return last - first;
}

void deal(const ReplayPlan& plan, CellPlan& cell, const Surveys& found) {
  const Allotment& allotment = *cell.policy.entry->allotment;
  std::vector<std::uint32_t> dealt;
  for (std::size_t first = 0; first < plan.units.size();) {
    const std::size_t count = sharers(plan, allotment.among, first);
    const auto tokens = allotment.tokens(cell.policy.arguments, setting_of(plan, cell, first),
                                         std::span(found).subspan(first, count));
    const auto sum = std::accumulate(tokens.begin(), tokens.end(), std::uint64_t{0});
    const std::uint64_t most = std::uint64_t{cell.budget.budget.tokens} * count;
    if (tokens.size() != count || (allotment.among != Allotment::Among::nobody && sum > most)) {
      throw std::logic_error("policy " + cell.policy.text + " deals out " + std::to_string(sum) +
                             " tokens to " + std::to_string(tokens.size()) + " of " +
                             std::to_string(count) + " units that have " + std::to_string(most));
    }
    dealt.insert(dealt.end(), tokens.begin(), tokens.end());
    first += count;
  }
  cell.unit_tokens = std::move(dealt);
}

}  // namespace

void deal_budgets(ReplayPlan& plan, const RowSource& source, unsigned threads,
                  const RunControl& control) {
  std::vector<const CellPlan*>
      surveyed;  // one per policy: what is found does not depend on budgets
  std::map<std::string, std::size_t> positions;
  for (const auto& cell : plan.cells) {
    if (!cell.policy.entry->allotment) continue;
    if (positions.emplace(cell.policy.text, surveyed.size()).second) surveyed.push_back(&cell);
  }
  if (surveyed.empty()) return;
  const auto found = survey(plan, surveyed, source, threads, control);
  for (auto& cell : plan.cells) {
    if (cell.policy.entry->allotment) deal(plan, cell, found[positions.at(cell.policy.text)]);
  }
}

}  // namespace kvreplay
