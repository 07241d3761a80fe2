// Runs cells step by step on rows in memory, so that tests see every kept set and sample.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulator/budget_lanes.hpp"
#include "simulator/cell.hpp"
#include "simulator/pooled_rows.hpp"
#include "simulator/sets_log.hpp"
#include "simulator/unit_vectors.hpp"
#include "traces/memory_rows.hpp"

namespace kvreplay::testing {

/// Metrics of one step, in the order of Metrics; sums over the unit's heads; none where a
/// metric has no sample at this step.
struct Step {
  std::vector<std::uint32_t> evicted;
  std::vector<std::uint32_t> kept;
  std::vector<std::optional<double>> metrics;
};

inline const std::string all_needed = "threshold:0.01,top:4,mass:0.95,mean";

inline ReplayRequest request_for(const std::string& policies, const std::string& budgets,
                                 Scope scope = Scope::head, Steps steps = Steps::all) {
  ReplayRequest request;
  request.policies = parse_policies(policies);
  request.budgets = parse_budgets(budgets);
  request.needed = parse_needed(all_needed);
  request.scope = scope;
  request.steps = steps;
  return request;
}

/// Tells what each step adds to samples.
class StepSamples {
 public:
  /// In all since the last call.
  std::vector<std::optional<double>> next(std::span<const Samples> samples) {
    sums_.resize(samples.size());
    counts_.resize(samples.size());
    std::vector<std::optional<double>> added(samples.size());
    for (std::size_t metric = 0; metric < samples.size(); ++metric) {
      const Samples& now = samples[metric];
      if (now.count() > counts_[metric]) added[metric] = now.sum() - sums_[metric];
      sums_[metric] = now.sum();
      counts_[metric] = now.count();
    }
    return added;
  }

 private:
  std::vector<double> sums_;
  std::vector<std::uint64_t> counts_;
};

/// All steps of the plan's cell `cell` on its unit `unit`, and in `all` what it measured in all.
inline std::vector<Step> all_steps(const RowSource& source, const ReplayPlan& plan,
                                   std::size_t cell = 0, std::size_t unit = 0,
                                   std::vector<Samples>* all = nullptr) {
  const UnitPlan& heads = plan.units.at(unit);
  std::vector<std::vector<float>> scratch(heads.heads.size());
  std::vector<std::span<const float>> slabs;
  for (std::size_t i = 0; i < heads.heads.size(); ++i) {
    slabs.push_back(source.rows(heads.heads[i], {0, plan.tokens}, scratch[i]));
  }
  RowViews views(plan);
  std::vector<std::span<const float>> values;
  for (const auto slot : heads.heads) values.push_back(source.values(slot));
  views.look(heads, slabs, 0, {0, plan.tokens}, values);
  Workspace workspace(plan);
  Cell stepped(plan, plan.cells.at(cell));
  std::vector<double> column_sums(plan.tokens, 0.0);
  PooledRows(source, plan)
      .each(heads, plan.tokens,
            {.stopped = [] { return false; }, .rows_done = [](std::uint64_t) {}},
            [&](std::uint32_t, std::span<const double> row) {
              for (std::size_t j = 0; j < row.size(); ++j) column_sums[j] += row[j];
            });
  UnitVectors vectors;
  if (plan.vectors) vectors.look(source, plan, heads);
  stepped.start(unit, column_sums, vectors.sequence());
  std::vector<Step> steps;
  StepSamples samples;
  for (std::uint32_t i = 0; i < plan.tokens; ++i) {
    stepped.step(i, views.row(i), workspace);
    steps.push_back({{stepped.evicted().begin(), stepped.evicted().end()},
                     {stepped.kept().begin(), stepped.kept().end()},
                     samples.next(stepped.samples())});
  }
  stepped.finish();
  if (all != nullptr) all->assign(stepped.samples().begin(), stepped.samples().end());
  return steps;
}

/// What a log of kept sets says where every cell is replayed by itself.
inline std::string sets_of_cells(const RowSource& rows, const ReplayPlan& plan) {
  std::string lines = "layer\thead\tpolicy\tbudget_tokens\tstep\tevicted\tkept\n";
  for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
    for (std::size_t cell = 0; cell < plan.cells.size(); ++cell) {
      const auto steps = all_steps(rows, plan, cell, unit);
      for (std::uint32_t i = 0; i < steps.size(); ++i) {
        lines += sets_line(plan.cells[cell], plan.units[unit], i, steps[i].evicted, steps[i].kept);
      }
    }
  }
  return lines;
}

/// All steps of all cells of the plan, which serve as lanes, on its unit `unit`; `rows_at_once` of
/// them at a time.
inline std::vector<std::vector<Step>> lane_steps(
    const RowSource& source, const ReplayPlan& plan, std::size_t unit = 0,
    const LaneKernels& kernels = available_kernels().front()->lanes,
    std::uint32_t rows_at_once = 20) {
  std::vector<std::size_t> cells(plan.cells.size());
  for (std::size_t cell = 0; cell < cells.size(); ++cell) cells[cell] = cell;
  BudgetLanes lanes(plan, cells, kernels);
  RowViews views(plan);
  std::vector<float> scratch;
  const std::vector<std::span<const float>> slab = {
      source.rows(plan.units.at(unit).heads.at(0), {0, plan.tokens}, scratch)};
  std::vector<std::vector<Step>> steps(cells.size());
  std::vector<StepSamples> samples(cells.size());
  const auto after = [&](std::size_t lane, std::uint32_t) {
    const auto i = static_cast<std::uint32_t>(steps[lane].size());
    Step step{{}, lanes.kept(lane, i), samples[lane].next(lanes.samples(lane).samples())};
    if (const auto token = lanes.evicted(lane)) step.evicted.push_back(*token);
    steps[lane].push_back(step);
  };
  lanes.start();
  for (std::uint32_t first = 0; first < plan.tokens; first += rows_at_once) {
    const RowRange rows{first, std::min(first + rows_at_once, plan.tokens)};
    views.look(plan.units[unit], slab, 0, rows);
    lanes.step(rows, views, after);
  }
  return steps;
}

/// What all cells of the plan, as lanes that nobody looks at between, measure in all on unit 0.
inline std::vector<std::vector<Samples>> lane_samples(
    const RowSource& source, const ReplayPlan& plan, std::uint32_t rows_at_once,
    const LaneKernels& kernels = available_kernels().front()->lanes) {
  std::vector<std::size_t> cells(plan.cells.size());
  for (std::size_t cell = 0; cell < cells.size(); ++cell) cells[cell] = cell;
  BudgetLanes lanes(plan, cells, kernels);
  RowViews views(plan);
  std::vector<float> scratch;
  const std::vector<std::span<const float>> slab = {
      source.rows(plan.units.at(0).heads.at(0), {0, plan.tokens}, scratch)};
  lanes.start();
  for (std::uint32_t first = 0; first < plan.tokens; first += rows_at_once) {
    const RowRange rows{first, std::min(first + rows_at_once, plan.tokens)};
    views.look(plan.units[0], slab, 0, rows);
    lanes.step(rows, views);
  }
  lanes.finish();
  std::vector<std::vector<Samples>> samples;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const auto of_lane = lanes.samples(lane).samples();
    samples.emplace_back(of_lane.begin(), of_lane.end());
  }
  return samples;
}

}  // namespace kvreplay::testing
