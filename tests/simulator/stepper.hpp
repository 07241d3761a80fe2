// Runs one cell step by step on rows in memory, so that tests see every kept set and sample.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulator/cell.hpp"
#include "simulator/pooled_rows.hpp"
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

/// All steps of the plan's cell `cell` on its unit `unit`.
inline std::vector<Step> all_steps(const RowSource& source, const ReplayPlan& plan,
                                   std::size_t cell = 0, std::size_t unit = 0) {
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
  std::vector<double> sums(stepped.samples().size(), 0);
  std::vector<std::uint64_t> counts(sums.size(), 0);
  for (std::uint32_t i = 0; i < plan.tokens; ++i) {
    stepped.step(i, views.row(i), workspace);
    Step step{{stepped.evicted().begin(), stepped.evicted().end()},
              {stepped.kept().begin(), stepped.kept().end()},
              {}};
    for (std::size_t metric = 0; metric < sums.size(); ++metric) {
      const auto& samples = stepped.samples()[metric];
      step.metrics.emplace_back();
      if (samples.count() > counts[metric]) step.metrics.back() = samples.sum() - sums[metric];
      sums[metric] = samples.sum();
      counts[metric] = samples.count();
    }
    steps.push_back(step);
  }
  return steps;
}

}  // namespace kvreplay::testing
