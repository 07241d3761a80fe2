#include "simulator/replay.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "simulator/cell.hpp"
#include "simulator/pooled_rows.hpp"
#include "simulator/results.hpp"
#include "simulator/row_views.hpp"
#include "simulator/sets_log.hpp"

namespace kvreplay {
namespace {

constexpr std::uint64_t kBlockValues = (std::uint64_t{256} << 10) / sizeof(float);  // stays in L2

bool needs_column_sums(const ReplayPlan& plan) {
  return std::any_of(plan.cells.begin(), plan.cells.end(), [](const CellPlan& cell) {
    const auto& needs = cell.policy.entry->needs;
    return std::find(needs.begin(), needs.end(), Need::future_rows) != needs.end();
  });
}

/// Replays units one after another; one per thread.
class Worker {
 public:
  Worker(const RowSource& source, const ReplayPlan& plan)
      : source_(source),
        plan_(plan),
        unit_rows_(source, plan),
        views_(plan),
        workspace_(plan.tokens) {
    cells_.reserve(plan.cells.size());
    for (const auto& cell : plan.cells) cells_.emplace_back(plan, cell);
    std::size_t heads = 0;
    for (const auto& unit : plan.units) heads = std::max(heads, unit.heads.size());
    scratch_.resize(heads);
  }

  /// Calls rows_done(count) as it goes and, where `sets` is not null, appends each cell's kept sets
  /// to its text there. Asks stopped() now and then. False: stopped before the unit's end.
  template <class Stopped, class RowsDone>
  bool run(std::size_t position, Stopped stopped, RowsDone rows_done,
           std::vector<std::string>* sets) {
    const UnitPlan& unit = plan_.units[position];
    const std::size_t heads = unit.heads.size();
    if (needs_column_sums(plan_)) {
      column_sums_.assign(plan_.tokens, 0.0);
      const bool whole = unit_rows_.each(unit, plan_.tokens, stopped,
                                         [&](std::uint32_t, std::span<const double> row) {
                                           for (std::size_t j = 0; j < row.size(); ++j)
                                             column_sums_[j] += row[j];
                                         });
      if (!whole) return false;
    }
    for (auto& cell : cells_) cell.start(position, column_sums_);
    std::vector<std::span<const float>> slabs(heads);
    for (std::uint32_t next = 0; next < plan_.tokens;) {
      const RowRange slab = rows_from(next, plan_.tokens, kSlabValues / heads);
      for (std::size_t head = 0; head < heads; ++head) {
        slabs[head] = source_.rows(unit.heads[head], slab, scratch_[head]);
      }
      for (std::uint32_t row = slab.first; row < slab.last;) {
        if (stopped()) return false;
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
  PooledRows unit_rows_;
  std::vector<double> column_sums_;
  std::vector<std::vector<float>> scratch_;  // by head
  RowViews views_;
  Workspace workspace_;
};

/// Only heads and groups have rows of their own in results: at layer scope the layers do.
bool details_units(const ReplayPlan& plan) {
  return plan.detail == Detail::head && plan.scope <= Scope::group;
}

/// What the units of the plan measured, gathered as they end, in any order. Sums are added in the
/// plan's order, units within their layer and then layers; counts may come as they like.
class Collector {
 public:
  explicit Collector(const ReplayPlan& plan)
      : plan_(plan), layers_(layers_of(plan).size()), overall_(new_samples()) {
    if (details_units(plan)) outcome_.units.resize(plan.units.size());
    if (plan.detail != Detail::overall) outcome_.layers.resize(layers_.size());
    outcome_.zero_mass_rows.resize(plan.cells.size());
    for (const auto& unit : plan.units) {
      if (first_units_.empty() || plan.units[first_units_.back()].layer != unit.layer) {
        first_units_.push_back(static_cast<std::size_t>(&unit - plan.units.data()));
      }
      layers_[first_units_.size() - 1].units.emplace_back();
    }
    for (auto& layer : layers_) layer.units_left = layer.units.size();
  }

  void add(std::size_t unit, std::span<const Cell> cells) {
    std::vector<Summary> summaries;
    std::vector<Sums> sums;
    for (const auto& cell : cells) {
      for (const auto& samples : cell.samples()) {
        if (details_units(plan_)) summaries.push_back(samples.summary());
        sums.push_back(samples.sums());
      }
    }
    const std::scoped_lock lock(mutex_);
    const auto position =
        static_cast<std::size_t>(std::upper_bound(first_units_.begin(), first_units_.end(), unit) -
                                 first_units_.begin() - 1);
    Layer& layer = layers_[position];
    if (plan_.detail != Detail::overall && layer.samples.empty()) layer.samples = new_samples();
    auto total = (plan_.detail == Detail::overall ? overall_ : layer.samples).begin();
    for (std::size_t cell = 0; cell < cells.size(); ++cell) {
      outcome_.zero_mass_rows[cell] += cells[cell].zero_mass_rows();
      for (const auto& samples : cells[cell].samples()) {
        (total++)->merge_histogram(samples.histogram());
      }
    }
    if (details_units(plan_)) outcome_.units[unit] = std::move(summaries);
    layer.units[unit - first_units_[position]] = std::move(sums);
    ++outcome_.units_done;
    if (--layer.units_left == 0) close(position);
  }

  ReplayOutcome finish() {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      if (layers_[layer].units_left > 0) close(layer);
    }
    for (const Layer& layer : layers_) {
      for (std::size_t i = 0; i < layer.sums.size(); ++i) overall_[i].merge_sums(layer.sums[i]);
    }
    for (const auto& samples : overall_) outcome_.overall.push_back(samples.summary());
    return std::move(outcome_);
  }

 private:
  struct Layer {
    std::vector<std::vector<Sums>> units;  // of those done, until the layer closes
    std::size_t units_left = 0;
    std::vector<Samples> samples;  // of the units done so far, until the layer closes
    std::vector<Sums> sums;        // once it has closed; empty where no unit was done
  };

  std::vector<Samples> new_samples() const {
    std::vector<Samples> samples;
    const auto of_cell = no_samples(plan_.needed);
    for (std::size_t cell = 0; cell < plan_.cells.size(); ++cell) {
      samples.insert(samples.end(), of_cell.begin(), of_cell.end());
    }
    return samples;
  }

  void close(std::size_t position) {
    Layer& layer = layers_[position];
    std::vector<Samples> total = new_samples();
    bool any = false;
    for (const auto& sums : layer.units) {
      any = any || !sums.empty();
      for (std::size_t i = 0; i < sums.size(); ++i) total[i].merge_sums(sums[i]);
    }
    layer.units = {};
    if (!any) return;
    for (std::size_t i = 0; i < total.size(); ++i) {
      layer.sums.push_back(total[i].sums());
      if (plan_.detail == Detail::overall) continue;
      layer.samples[i].merge_sums(layer.sums.back());
      outcome_.layers[position].push_back(layer.samples[i].summary());
      overall_[i].merge_histogram(layer.samples[i].histogram());
    }
    layer.samples = {};
  }

  const ReplayPlan& plan_;
  std::mutex mutex_;
  ReplayOutcome outcome_;
  std::vector<Layer> layers_;
  std::vector<std::size_t> first_units_;  // by layer
  std::vector<Samples> overall_;
};

/// Bytes of all histograms of one unit, a layer, or the whole, at most.
std::uint64_t histogram_bytes(const ReplayPlan& plan) {
  const double n = plan.tokens;
  const auto between = [](double least, double most, Rounding rounding = Rounding::nine_bits) {
    return Histogram::bytes_between(least, most, rounding);
  };
  std::uint64_t bytes = 0;
  for (const auto& cell : plan.cells) {
    const double most = std::min(cell.traits.capacity, plan.tokens);
    const double least =
        plan.steps == Steps::all ? 0 : std::min<double>(first_measured(plan, cell), most);
    bytes += between(0, 1) + plan.needed.size() * between(1 / n, 1);  // mass_loss, misses
    bytes += 2 * between(least, most + 1, Rounding::none);            // kept, visible
    bytes += between(1 / most, 1) + between(0.25, n);                 // turnover, age
  }
  return bytes;
}

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
  std::atomic<bool> failed{false};  // by one worker: the others need not go on
  const auto stopped = [&] { return failed.load(std::memory_order_relaxed) || control.stopped(); };
  // Units are taken in order, so what an interrupted run has done is a prefix, give or take the
  // units in flight, and few layers are open at a time.
  const auto work = [&] {
    Worker worker(source, plan);
    for (std::size_t unit = next_unit++; unit < plan.units.size(); unit = next_unit++) {
      std::vector<std::string> lines(plan.cells.size());
      if (!worker.run(unit, stopped, report, sets != nullptr ? &lines : nullptr)) return;
      collector.add(unit, worker.cells());
      if (sets != nullptr) sets->add(unit, lines);
    }
  };
  const auto work_or_fail = [&] {
    try {
      work();
    } catch (...) {
      failed = true;
      throw;
    }
  };
  on_threads(std::min<std::size_t>(threads, plan.units.size()), [&] { work_or_fail(); });
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
  const std::uint64_t n = plan.tokens;
  const std::uint64_t units = plan.units.size();
  const std::uint64_t layers = layers_of(plan).size();
  const std::uint64_t cells = plan.cells.size();
  const std::uint64_t metrics = cells * metric_names(plan.needed).size();
  const std::uint64_t per_layer = (units + layers - 1) / layers;
  const std::uint64_t workers = std::min<std::uint64_t>(threads, units);
  // Units are taken in order: few layers have some units done and others not.
  const std::uint64_t open = std::min(layers, 1 + (workers + per_layer - 1) / per_layer);
  const bool by_layer = plan.detail != Detail::overall;

  const std::uint64_t counts = histogram_bytes(plan) + metrics * sizeof(Samples);
  const std::uint64_t measured = counts * (workers + 1 + (by_layer ? open : 0)) +
                                 metrics * sizeof(Sums) * (open * per_layer + layers);
  const std::uint64_t scratch = workers * (2 * kSlabValues * sizeof(float) + cells * n * 16);
  const std::uint64_t places = 1 + (by_layer ? layers : 0) + (details_units(plan) ? units : 0);
  return measured + scratch + places * metrics * (sizeof(Summary) + 5 * ResultRows::kBytesPerRow);
}

}  // namespace kvreplay
