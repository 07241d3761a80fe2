#include "simulator/replay.hpp"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "simulator/cell.hpp"
#include "simulator/results.hpp"
#include "simulator/row_views.hpp"
#include "simulator/sets_log.hpp"

namespace kvreplay {
namespace {

constexpr std::uint64_t kSlabValues =
    (std::uint64_t{4} << 20) / sizeof(float);  // all heads of a unit
constexpr std::uint64_t kBlockValues = (std::uint64_t{256} << 10) / sizeof(float);  // stays in L2

/// The longest range from `first` whose rows hold at most `values` values, but at least one row.
RowRange rows_from(std::uint32_t first, std::uint32_t end, std::uint64_t values) {
  RowRange range{first, first + 1};
  while (range.last < end && RowRange{first, range.last + 1}.values() <= values) ++range.last;
  return range;
}

/// Replays units one after another; one per thread.
class Worker {
 public:
  Worker(const RowSource& source, const ReplayPlan& plan)
      : source_(source), plan_(plan), views_(plan), workspace_(plan.tokens) {
    cells_.reserve(plan.cells.size());
    for (const auto& cell : plan.cells) cells_.emplace_back(plan, cell);
    std::size_t heads = 0;
    for (const auto& unit : plan.units) heads = std::max(heads, unit.heads.size());
    scratch_.resize(heads);
  }

  /// Calls rows_done(count) as it goes and, where `sets` is not null, appends each cell's kept sets
  /// to its text there. False: stopped before the unit's end.
  template <class RowsDone>
  bool run(const UnitPlan& unit, const RunControl& control, RowsDone rows_done,
           std::vector<std::string>* sets) {
    const std::size_t heads = unit.heads.size();
    for (auto& cell : cells_) cell.start(unit);
    std::vector<std::span<const float>> slabs(heads);
    for (std::uint32_t next = 0; next < plan_.tokens;) {
      const RowRange slab = rows_from(next, plan_.tokens, kSlabValues / heads);
      for (std::size_t head = 0; head < heads; ++head) {
        slabs[head] = source_.rows(unit.heads[head], slab, scratch_[head]);
      }
      for (std::uint32_t row = slab.first; row < slab.last;) {
        if (control.stopped()) return false;
        const RowRange block = rows_from(row, slab.last, kBlockValues / heads);
        views_.look(unit, slabs, slab.first, block);
        for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
          for (std::uint32_t i = block.first; i < block.last; ++i) {
            cells_[cell].step(i, views_.row(i), workspace_);
            if (sets != nullptr) {
              (*sets)[cell] += sets_line(plan_.cells[cell], unit, i, cells_[cell].evicted(),
                                         cells_[cell].kept());
            }
          }
        }
        row = block.last;
      }
      next = slab.last;
      rows_done(slab.size() * heads);
    }
    return true;
  }

  std::span<const Cell> cells() const { return cells_; }

 private:
  const RowSource& source_;
  const ReplayPlan& plan_;
  std::vector<Cell> cells_;
  std::vector<std::vector<float>> scratch_;  // by head
  RowViews views_;
  Workspace workspace_;
};

/// What the units of the plan measured, gathered as they end, in any order.
class Collector {
 public:
  explicit Collector(const ReplayPlan& plan)
      : plan_(plan),
        layers_(layers_of(plan)),
        metrics_(metric_names(plan.needed).size()),
        units_(plan.units.size()),
        open_layers_(layers_.size()),
        overall_(size()) {
    outcome_.units.resize(units_.size());
    outcome_.layers.resize(layers_.size());
    outcome_.zero_mass_rows.resize(plan.cells.size());
    units_left_.resize(layers_.size());
    for (const auto& unit : plan.units) ++units_left_[layer_position(unit)];
  }

  void add(std::size_t unit, std::span<const Cell> cells) {
    std::vector<Summary> summaries;
    std::vector<double> sums;
    for (const auto& cell : cells) {
      for (const auto& samples : cell.samples()) {
        summaries.push_back(samples.summary());
        sums.push_back(samples.sum());
      }
    }
    const std::scoped_lock lock(mutex_);
    const std::size_t layer = layer_position(plan_.units[unit]);
    auto& open = open_layers_[layer];
    open.resize(size());
    for (std::size_t cell = 0; cell < cells.size(); ++cell) {
      outcome_.zero_mass_rows[cell] += cells[cell].zero_mass_rows();
      for (std::size_t metric = 0; metric < metrics_; ++metric) {
        open[cell * metrics_ + metric].merge_histogram(cells[cell].samples()[metric].histogram());
      }
    }
    outcome_.units[unit] = std::move(summaries);
    units_[unit] = std::move(sums);
    ++outcome_.units_done;
    if (--units_left_[layer] == 0) close(layer);
  }

  ReplayOutcome finish() {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      if (units_left_[layer] > 0) close(layer);
    }
    add_sums(overall_, std::nullopt);
    for (const auto& samples : overall_) outcome_.overall.push_back(samples.summary());
    return std::move(outcome_);
  }

 private:
  std::size_t size() const { return plan_.cells.size() * metrics_; }

  std::size_t layer_position(const UnitPlan& unit) const {
    return static_cast<std::size_t>(std::lower_bound(layers_.begin(), layers_.end(), unit.layer) -
                                    layers_.begin());
  }

  void close(std::size_t layer) {
    auto& open = open_layers_[layer];
    if (open.empty()) return;
    add_sums(open, layer);
    for (std::size_t i = 0; i < open.size(); ++i) {
      outcome_.layers[layer].push_back(open[i].summary());
      overall_[i].merge_histogram(open[i].histogram());
    }
    open = {};
  }

  /// Adds the sums of the done units, in the plan's order, of one layer or of all.
  void add_sums(std::vector<Samples>& total, std::optional<std::size_t> layer) const {
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      if (units_[unit].empty() || (layer && layer_position(plan_.units[unit]) != *layer)) continue;
      for (std::size_t i = 0; i < total.size(); ++i) {
        const Summary& summary = outcome_.units[unit][i];
        total[i].merge_sums(summary.count, units_[unit][i], summary.max);
      }
    }
  }

  const ReplayPlan& plan_;
  std::vector<std::uint32_t> layers_;
  std::size_t metrics_;
  std::mutex mutex_;
  ReplayOutcome outcome_;
  std::vector<std::vector<double>> units_;         // sums by unit, as outcome_.units
  std::vector<std::vector<Samples>> open_layers_;  // empty before the first unit and after the last
  std::vector<std::size_t> units_left_;
  std::vector<Samples> overall_;
};

}  // namespace

ReplayOutcome replay(const RowSource& source, const ReplayPlan& plan, unsigned threads,
                     const RunControl& control, SetsLog* sets) {
  Collector collector(plan);
  std::atomic<std::size_t> next_unit{0};
  std::mutex report_mutex;
  std::uint64_t rows_done = 0;
  const std::uint64_t rows = plan.rows();
  const auto report = [&](std::uint64_t count) {
    const std::scoped_lock lock(report_mutex);
    rows_done += count;
    control.report("rows", rows_done, rows);
  };
  // Units are taken in order, so what an interrupted run has done is a prefix, give or take the
  // units in flight, and few layers are open at a time.
  const auto work = [&](unsigned) {
    Worker worker(source, plan);
    for (std::size_t unit = next_unit++; unit < plan.units.size(); unit = next_unit++) {
      std::vector<std::string> lines(plan.cells.size());
      if (!worker.run(plan.units[unit], control, report, sets != nullptr ? &lines : nullptr))
        return;
      collector.add(unit, worker.cells());
      if (sets != nullptr) sets->add(unit, lines);
    }
  };
  threads = static_cast<unsigned>(std::clamp<std::size_t>(threads, 1, plan.units.size()));
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, threads);
  tbb::task_arena arena(static_cast<int>(threads));
  arena.execute([&] { tbb::parallel_for(0U, threads, work, tbb::simple_partitioner()); });
  return collector.finish();
}

std::vector<std::uint32_t> layers_of(const ReplayPlan& plan) {
  std::vector<std::uint32_t> layers;
  for (const auto& unit : plan.units) {
    if (layers.empty() || layers.back() != unit.layer) layers.push_back(unit.layer);
  }
  return layers;
}

std::uint64_t estimated_bytes(const ReplayPlan& plan, unsigned threads) {
  constexpr std::uint64_t kHistogram = 12'288;  // what is touched of one, as seen
  const std::uint64_t n = plan.tokens;
  const std::uint64_t cells = plan.cells.size();
  const std::uint64_t metrics = metric_names(plan.needed).size();
  const std::uint64_t histograms = cells * metrics * kHistogram;
  const std::uint64_t per_thread = 2 * kSlabValues * sizeof(float) + cells * n * 16 + histograms;
  return threads * per_thread + 3 * histograms +
         plan.units.size() * cells * metrics * (sizeof(Summary) + 5 * sizeof(ResultRow));
}

}  // namespace kvreplay
