#include "simulator/optimum_rows.hpp"

#include "simulator/collector.hpp"

namespace kvreplay {

void add_rows(const OptimumPlan& plan, const OptimumOutcome& outcome, Results& results) {
  ResultRow row;
  row.trace = results.text(plan.replay.trace);
  row.scope = name(plan.replay.scope);
  row.metric = results.text(plan.objective.metric());
  row.statistic = "mean";
  const auto add = [&](const std::vector<LeastLoss>& losses, std::optional<std::uint32_t> layer,
                       std::optional<std::uint32_t> head) {
    row.layer = layer;
    row.head = head;
    for (const bool irreversible : {true, false}) {
      row.policy = irreversible ? "optimum" : "recoverable";
      for (std::size_t at = 0; at < losses.size(); ++at) {
        const LeastLoss& least = losses[at];
        const auto& [budget, held, first_row] = plan.budgets[at];
        if (least.samples == 0 && held < plan.replay.tokens) continue;
        row.budget = results.text(budget.text);
        row.budget_tokens = budget.budget.tokens;
        row.value = least.mean(irreversible ? least.loss : least.recoverable);
        row.steps = least.samples;
        results.rows.push_back(row);
      }
    }
  };
  if (outcome.units_done == 0) return;
  add(outcome.total(plan), std::nullopt, std::nullopt);
  if (plan.replay.detail == Detail::overall) return;
  const auto& units = plan.replay.units;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    if (unit > 0 && units[unit].layer == units[unit - 1].layer) continue;
    const auto losses = outcome.total(plan, units[unit].layer);
    // Of a layer without a unit that is done nothing is known.
    if (losses.back().samples > 0 || outcome.whole() || losses.front().samples > 0) {
      add(losses, units[unit].layer, std::nullopt);
    }
  }
  if (!details_units(plan.replay)) return;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    if (!outcome.units[unit].empty()) {
      add(outcome.units[unit], units[unit].layer, units[unit].index);
    }
  }
}

}  // namespace kvreplay
