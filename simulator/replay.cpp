#include "simulator/replay.hpp"

#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>

#include "simulator/budget_lanes.hpp"
#include "simulator/budget_stack.hpp"
#include "simulator/cell.hpp"
#include "simulator/collector.hpp"
#include "simulator/joint_cells.hpp"
#include "simulator/pooled_rows.hpp"
#include "simulator/results.hpp"
#include "simulator/row_views.hpp"
#include "simulator/series.hpp"
#include "simulator/sets_log.hpp"
#include "simulator/unit_vectors.hpp"

namespace kvreplay {
namespace {

// Of rows that stay in L2; where there are lanes, at least a tile.
constexpr std::uint64_t kBlockValues = (std::uint64_t{256} << 10) / sizeof(float);

bool needs_column_sums(const ReplayPlan& plan) {
  return some_need(plan, Need::future_rows);
}

/// Replays units, one after another or those of a group side by side; one per thread.
class Worker {
 public:
  /// `series` may be null. `threads`: of the arena, on which cells may run.
  Worker(const RowSource& source, const ReplayPlan& plan, Series* series, std::size_t threads)
      : source_(source),
        plan_(plan),
        series_(series),
        parallel_(threads > 1),
        together_(plan.units_together()),
        unit_rows_(source, plan),
        column_sums_(together_),
        vectors_(together_),
        workspaces_(plan) {
    const JointCells joint = joint_cells(plan);
    single_ = joint.single;
    cells_.reserve(single_.size() * together_);
    for (const std::size_t cell : single_) {
      for (std::size_t unit = 0; unit < together_; ++unit) {
        cells_.emplace_back(plan, plan.cells[cell]);
      }
    }
    const auto chains = BudgetLanes::chains(plan, joint.lanes);
    for (std::size_t part = 0; part < std::min(threads, chains.size()); ++part) {
      std::vector<std::size_t> some;
      for (std::size_t at = part; at < chains.size(); at += threads) {
        some.insert(some.end(), chains[at].begin(), chains[at].end());
      }
      lanes_.emplace_back(plan, some);
    }
    for (const auto& stack : joint.stacks) stacks_.emplace_back(plan, stack);
    for (std::size_t unit = 0; unit < together_; ++unit) views_.emplace_back(plan);
    std::size_t heads = 0;
    for (const auto& unit : plan.units) heads = std::max(heads, unit.heads.size());
    scratch_.resize(heads * together_);
  }

  /// Replays the units from `first` on. Where `sets` is not null, appends each cell's kept sets to
  /// its text there, by unit and cell. False: stopped before the units' end.
  bool run(std::size_t first, const Watch& watch, std::vector<std::string>* sets) {
    first_unit_ = first;
    sets_ = sets;
    const auto units = std::span(plan_.units).subspan(first, together_);
    if (!start(units, watch)) return false;
    const std::size_t heads = units[0].heads.size();
    std::vector<std::span<const float>> slabs(heads * together_);
    std::vector<std::span<const float>> values(plan_.values ? slabs.size() : 0);
    for (std::size_t at = 0; at < values.size(); ++at) {
      const UnitPlan& unit = units[at / heads];
      values[at] = source_.values(unit.heads[at % heads]);
      check_finite(values[at], plan_.head_size, "values", plan_, unit, at % heads);
    }
    for (std::uint32_t next = 0; next < plan_.tokens;) {
      const RowRange slab = whole_tiles(rows_from(next, plan_.tokens, kSlabValues / slabs.size()));
      for (std::size_t at = 0; at < slabs.size() && !plan_.only_visible; ++at) {
        slabs[at] = source_.rows(units[at / heads].heads[at % heads], slab, scratch_[at]);
      }
      for (std::uint32_t row = slab.first; row < slab.last;) {
        if (watch.stopped()) return false;
        const RowRange block = whole_tiles(rows_from(row, slab.last, kBlockValues / slabs.size()));
        for (std::size_t unit = 0; unit < together_; ++unit) {
          if (plan_.only_visible) {
            views_[unit].look_at_factors(units[unit], source_, block);
            continue;
          }
          views_[unit].look(units[unit], std::span(slabs).subspan(unit * heads, heads), slab.first,
                            block,
                            plan_.values ? std::span(values).subspan(unit * heads, heads)
                                         : std::span<const std::span<const float>>());
        }
        for_each_task([&](std::size_t task) {
          if (task < lanes_.size()) {
            step_joint(lanes_[task], block);
          } else if (task - lanes_.size() < stacks_.size()) {
            step_joint(stacks_[task - lanes_.size()], block);
          } else {
            step(task - lanes_.size() - stacks_.size(), block, workspaces_.local());
          }
        });
        row = block.last;
      }
      next = slab.last;
      watch.rows_done(slab.size() * slabs.size());
    }
    for (auto& cell : cells_) cell.finish();
    for (auto& lanes : lanes_) lanes.finish();
    return true;
  }

  /// What the plan's cells measured on the unit that is `place` behind the first of the last run.
  std::vector<Collector::Measured> measured(std::size_t place) const {
    std::vector<Collector::Measured> measured(plan_.cells.size());
    for (std::size_t at = 0; at < single_.size(); ++at) {
      const Cell& cell = cells_[at * together_ + place];
      measured[single_[at]] = {cell.samples(), cell.zero_mass_rows()};
    }
    const auto take = [&](const auto& joint) {
      for (std::size_t at = 0; at < joint.size(); ++at) {
        measured[joint.cell(at)] = {joint.samples(at).samples(), joint.zero_mass_rows(at)};
      }
    };
    for (const auto& lanes : lanes_) take(lanes);
    for (const auto& stack : stacks_) take(stack);
    return measured;
  }

 private:
  bool start(std::span<const UnitPlan> units, const Watch& watch) {
    if (needs_column_sums(plan_)) {
      for (std::size_t unit = 0; unit < together_; ++unit) {
        auto& sums = column_sums_[unit];
        sums.assign(plan_.tokens, 0.0);
        const auto add = [&](std::uint32_t, std::span<const double> row) {
          for (std::size_t j = 0; j < row.size(); ++j) sums[j] += row[j];
        };
        if (!unit_rows_.each(units[unit], plan_.tokens, watch, add)) return false;
      }
    }
    if (plan_.vectors) {
      for (std::size_t unit = 0; unit < together_; ++unit) {
        vectors_[unit].look(source_, plan_, units[unit]);
      }
    }
    for (std::size_t at = 0; at < cells_.size(); ++at) {
      const std::size_t unit = at % together_;
      cells_[at].start(first_unit_ + unit, column_sums_[unit], vectors_[unit].sequence());
    }
    for (auto& lanes : lanes_) lanes.start();
    for (auto& stack : stacks_) stack.start(column_sums_[0]);
    return true;
  }

  /// As many rows as lanes take together, or several times that, where there are lanes.
  RowRange whole_tiles(RowRange rows) const {
    if (lanes_.empty()) return rows;
    const auto tiles =
        std::max<std::uint32_t>(1, static_cast<std::uint32_t>(rows.size()) / kTileRows);
    return {rows.first, std::min(rows.first + tiles * kTileRows, plan_.tokens)};
  }

  template <class Use>
  void for_each_task(Use use) {
    const std::size_t tasks = lanes_.size() + stacks_.size() + single_.size();
    if (!parallel_) {
      for (std::size_t task = 0; task < tasks; ++task) use(task);
      return;
    }
    // Isolated, or a thread that waits here might begin with other units.
    tbb::this_task_arena::isolate([&] { tbb::parallel_for(std::size_t{0}, tasks, use); });
  }

  /// `at`: among the single ones.
  void step(std::size_t at, RowRange block, Workspace& workspace) {
    const std::size_t cell = single_[at];
    const auto units = std::span(cells_).subspan(at * together_, together_);
    for (std::uint32_t i = block.first; i < block.last; ++i) {
      for (std::size_t unit = 0; unit < together_; ++unit) {
        units[unit].step(i, views_[unit].row(i), workspace);
        if (logs(i)) log(unit, cell, i, units[unit].evicted(), units[unit].kept());
      }
      if (plan_.unions) Cell::measure_union(i, units);
      if (!ends_bin(i)) continue;
      for (std::size_t unit = 0; unit < together_; ++unit) {
        end_bin(unit, cell, i, units[unit].bin());
      }
    }
  }

  template <class Joint>
  void step_joint(Joint& joint, RowRange block) {
    const auto after = [&](std::size_t at, std::uint32_t i) {
      const std::size_t cell = joint.cell(at);
      if (logs(i)) {
        std::vector<std::uint32_t> evicted;
        if (const auto token = joint.evicted(at)) evicted.push_back(*token);
        log(0, cell, i, evicted, joint.kept(at, i));
      }
      if (ends_bin(i)) end_bin(0, cell, i, joint.samples(at).bin());
    };
    const bool watched = sets_ != nullptr || series_ != nullptr;
    joint.step(block, views_[0], watched ? after : typename Joint::AfterStep());
  }

  bool logs(std::uint32_t i) const { return sets_ != nullptr && plan_.sampling.holds(i); }
  void log(std::size_t unit, std::size_t cell, std::uint32_t i,
           std::span<const std::uint32_t> evicted, std::span<const std::uint32_t> kept) {
    (*sets_)[unit * plan_.cells.size() + cell] +=
        sets_line(plan_.cells[cell], plan_.units[first_unit_ + unit], i, evicted, kept);
  }

  bool ends_bin(std::uint32_t i) const {
    return series_ != nullptr && i + 1 == bin_at(plan_, bin_of(plan_, i)).last;
  }
  void end_bin(std::size_t unit, std::size_t cell, std::uint32_t i, std::span<Samples> samples) {
    series_->add(first_unit_ + unit, cell, bin_of(plan_, i), samples);
  }

  const RowSource& source_;
  const ReplayPlan& plan_;
  Series* series_;
  bool parallel_;
  std::size_t together_;  // units
  std::size_t first_unit_ = 0;
  std::vector<std::string>* sets_ = nullptr;
  std::vector<std::size_t> single_;  // numbers of the cells that are replayed by themselves
  std::vector<Cell> cells_;          // of those, by cell, then unit
  std::vector<BudgetLanes> lanes_;   // of the plan; a thread's share each
  std::vector<BudgetStack> stacks_;
  PooledRows unit_rows_;
  std::vector<std::vector<double>> column_sums_;  // by unit
  std::vector<UnitVectors> vectors_;              // by unit
  std::vector<std::vector<float>> scratch_;       // by unit, then head
  std::vector<RowViews> views_;                   // by unit
  tbb::enumerable_thread_specific<Workspace> workspaces_;
};

}  // namespace

ReplayOutcome replay(const RowSource& source, const ReplayPlan& plan, unsigned threads,
                     const RunControl& control, SetsLog* sets) {
  Collector collector(plan);
  std::optional<Series> series;
  if (plan.bins > 0) series.emplace(plan);
  const std::size_t together = plan.units_together();
  const std::size_t portions = plan.units.size() / together;
  std::atomic<std::size_t> next_portion{0};
  std::mutex report_mutex;
  std::uint64_t rows_done = 0;
  const std::uint64_t rows = rows_read(plan);
  std::atomic<bool> failed{false};
  const Watch watch{
      .stopped = [&] { return failed.load(std::memory_order_relaxed) || control.stopped(); },
      .rows_done =
          [&](std::uint64_t count) {
            const std::scoped_lock lock(report_mutex);
            rows_done += count;
            control.report("rows", rows_done, rows);
          }};
  // Units are taken in order, so what an interrupted run has done is a prefix, give or take the
  // units in flight, and few layers are open at a time.
  const auto work = [&] {
    std::optional<Worker> worker;
    for (std::size_t portion = next_portion++; portion < portions; portion = next_portion++) {
      if (!worker) {
        worker.emplace(source, plan, series ? &*series : nullptr, portions < threads ? threads : 1);
      }
      std::vector<std::string> lines(plan.cells.size() * together);
      const std::size_t first = portion * together;
      if (!worker->run(first, watch, sets != nullptr ? &lines : nullptr)) return;
      for (std::size_t unit = 0; unit < together; ++unit) {
        collector.add(first + unit, worker->measured(unit));
        if (series) series->done(first + unit);
        if (sets != nullptr) {
          sets->add(first + unit,
                    std::span(lines).subspan(unit * plan.cells.size(), plan.cells.size()));
        }
      }
    }
  };
  on_threads(std::min<std::size_t>(threads, portions * plan.cells.size()), failed, work);
  ReplayOutcome outcome = collector.finish();
  if (series) outcome.series = series->finish();
  return outcome;
}

std::uint64_t rows_read(const ReplayPlan& plan) {
  return plan.rows() * (needs_column_sums(plan) ? 2 : 1);
}

std::vector<std::uint32_t> layers_of(const ReplayPlan& plan) {
  std::vector<std::uint32_t> layers;
  for (const auto& unit : plan.units) {
    if (layers.empty() || layers.back() != unit.layer) layers.push_back(unit.layer);
  }
  return layers;
}

std::uint64_t estimated_bytes(const ReplayPlan& plan, unsigned threads) {
  const std::uint64_t n = plan.tokens;
  const std::uint64_t units = plan.units.size();
  const std::uint64_t layers = layers_of(plan).size();
  const std::uint64_t cells = plan.cells.size();
  const std::uint64_t metrics = cells * Metrics(plan).size();
  const std::uint64_t per_layer = (units + layers - 1) / layers;
  const std::uint64_t together = plan.units_together();
  const std::uint64_t workers = std::min<std::uint64_t>(threads, units / together);
  // Units are taken in order: few layers have some units done and others not.
  const std::uint64_t open = std::min(layers, 1 + (workers * together + per_layer - 1) / per_layer);
  const bool by_layer = plan.detail != Detail::overall;

  std::uint64_t counts = metrics * sizeof(Samples);
  for (const auto& cell : plan.cells) counts += histogram_bytes(plan, cell);
  const std::uint64_t measured = counts * (workers * together + 1 + (by_layer ? open : 0)) +
                                 metrics * sizeof(Sums) * (open * per_layer + layers);
  // Kept sets, scores and what regret remembers: of each rule a bit a token and a delay. Scores
  // where nothing has left, and of candidates.
  const JointCells joint = joint_cells(plan);
  std::uint64_t remembered =
      (joint.lanes.size() + joint.single.size()) * (20 * n + (33 * n * plan.needed.size() + 7) / 8);
  remembered += joint.lanes.size() * sizeof(Contenders) + joint.stacks.size() * 16 * n;
  for (const auto& cell : plan.cells) remembered += cell.traits.history_bytes;
  remembered += std::min<std::uint64_t>(threads, cells) * (sizeof(TileRows) + (2 * 9 + 8) * n);
  const std::uint64_t slab = std::max(2 * kSlabValues, joint.lanes.empty() ? 0 : kTileRows * n);
  const std::uint64_t scratch = workers * (slab * sizeof(float) + together * remembered);
  const std::uint64_t places = 1 + (by_layer ? layers : 0) + (details_units(plan) ? units : 0);
  return measured + scratch + series_bytes(plan, threads) +
         places * metrics * (sizeof(Summary) + 5 * ResultRows::kBytesPerRow);
}

}  // namespace kvreplay
