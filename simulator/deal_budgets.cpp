#include "simulator/deal_budgets.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>
#include <numeric>
#include <stdexcept>

#include "simulator/pooled_rows.hpp"
#include "traces/errors.hpp"

namespace kvreplay {
namespace {

using Surveys = std::vector<UnitSurvey>;  // by unit

/// Units of a plan, `first` to `last` - 1.
struct UnitRange {
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t size() const { return last - first; }
};

/// Whole layers from unit `first` on, until there is a unit for every thread.
UnitRange next_layers(const ReplayPlan& plan, std::size_t first, unsigned threads) {
  const auto& units = plan.units;
  UnitRange range{first, first};
  while (range.last < units.size() &&
         (range.size() < threads || units[range.last].layer == units[range.last - 1].layer)) {
    ++range.last;
  }
  return range;
}

bool reads_rows(const std::vector<CellPlan*>& cells) {
  return std::any_of(cells.begin(), cells.end(), [](const CellPlan* cell) {
    return cell->policy.entry->allotment->survey != nullptr;
  });
}

/// What the surveys of `cells` find of some units: by cell, then by unit.
std::vector<Surveys> survey(const ReplayPlan& plan, const std::vector<CellPlan*>& cells,
                            UnitRange range, const RowSource& source, unsigned threads,
                            const Watch& outer) {
  Surveys places;
  for (std::size_t unit = range.first; unit < range.last; ++unit) {
    places.push_back({plan.units[unit].layer, plan.units[unit].index, {}});
  }
  std::vector<Surveys> found(cells.size(), places);
  if (!reads_rows(cells)) return found;
  std::atomic<std::size_t> next_unit{range.first};
  std::atomic<bool> stop{false};
  const Watch watch{
      .stopped = [&] { return stop.load(std::memory_order_relaxed) || outer.stopped(); },
      .rows_done = outer.rows_done};
  const auto work = [&] {
    PooledRows rows(source, plan);
    for (std::size_t unit = next_unit++; unit < range.last && !stop; unit = next_unit++) {
      std::vector<std::unique_ptr<Survey>> surveys;
      for (const CellPlan* cell : cells) {
        const auto make = cell->policy.entry->allotment->survey;
        surveys.push_back(make == nullptr
                              ? nullptr
                              : make(cell->policy.arguments, setting_of(plan, *cell, unit)));
      }
      const auto show = [&](std::uint32_t i, std::span<const double> row) {
        for (const auto& one : surveys) {
          if (one) one->observe(i, row);
        }
      };
      if (!rows.each(plan.units[unit], plan.prompt_tokens, watch, show)) stop = true;
      for (std::size_t at = 0; at < cells.size() && !stop; ++at) {
        if (surveys[at]) found[at][unit - range.first].found = surveys[at]->result();
      }
    }
  };
  on_threads(std::min<std::size_t>(threads, range.size()), stop, work);
  if (stop) throw Interrupted("interrupted before anything was measured");
  return found;
}

/// How many of the surveyed units share a budget with the first.
std::size_t sharers(std::span<const UnitSurvey> found, Allotment::Among among) {
  if (among != Allotment::Among::layer) return found.size();
  return static_cast<std::size_t>(
      std::find_if(found.begin(), found.end(),
                   [&](const UnitSurvey& unit) { return unit.layer != found[0].layer; }) -
      found.begin());
}

/// Deals out to the units that were surveyed, which follow those that have tokens already.
void deal(const ReplayPlan& plan, CellPlan& cell, std::span<const UnitSurvey> found,
          std::vector<std::uint32_t>& dealt) {
  const Allotment& allotment = *cell.policy.entry->allotment;
  while (!found.empty()) {
    const std::size_t count = sharers(found, allotment.among);
    const auto tokens = allotment.tokens(cell.policy.arguments,
                                         setting_of(plan, cell, dealt.size()), found.first(count));
    const auto sum = std::accumulate(tokens.begin(), tokens.end(), std::uint64_t{0});
    const std::uint64_t most = std::uint64_t{cell.given.tokens} * count;
    if (tokens.size() != count || (allotment.among != Allotment::Among::nobody && sum > most)) {
      throw std::logic_error("policy " + cell.policy.text + " deals out " + std::to_string(sum) +
                             " tokens to " + std::to_string(tokens.size()) + " of " +
                             std::to_string(count) + " units that have " + std::to_string(most));
    }
    dealt.insert(dealt.end(), tokens.begin(), tokens.end());
    found = found.subspan(count);
  }
}

}  // namespace

void deal_budgets(ReplayPlan& plan, const RowSource& source, unsigned threads,
                  const RunControl& control) {
  std::vector<CellPlan*> cells;
  for (auto& cell : plan.cells) {
    if (cell.policy.entry->allotment) cells.push_back(&cell);
  }
  if (cells.empty()) return;
  std::mutex report_mutex;
  std::uint64_t rows_done = 0;
  const std::uint64_t rows = plan.rows() / plan.tokens * plan.prompt_tokens;
  const Watch watch{.stopped = [&] { return control.stopped(); },
                    .rows_done =
                        [&](std::uint64_t count) {
                          const std::scoped_lock lock(report_mutex);
                          rows_done += count;
                          control.report("prompt rows", rows_done, rows);
                        }};
  // What is found of a layer can be much, as it is of every token: it goes as soon as it can.
  std::vector<Surveys> kept(cells.size());
  std::vector<std::vector<std::uint32_t>> dealt(cells.size());
  for (std::size_t first = 0; first < plan.units.size();) {
    const auto range = next_layers(plan, first, threads);
    auto found = survey(plan, cells, range, source, threads, watch);
    for (std::size_t at = 0; at < cells.size(); ++at) {
      if (cells[at]->policy.entry->allotment->among == Allotment::Among::layer) {
        deal(plan, *cells[at], found[at], dealt[at]);
      } else {
        std::move(found[at].begin(), found[at].end(), std::back_inserter(kept[at]));
      }
    }
    first = range.last;
  }
  for (std::size_t at = 0; at < cells.size(); ++at) {
    deal(plan, *cells[at], kept[at], dealt[at]);
    cells[at]->unit_tokens = std::move(dealt[at]);
  }
}

}  // namespace kvreplay
