#include "simulator/against.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <variant>

#include "simulator/coverage.hpp"
#include "simulator/metrics.hpp"

namespace kvreplay {
namespace {

using Losses = std::vector<std::vector<LeastLoss>>;  // by optimum, then budget

/// What k bounds after a step, where the budget may bound what a query sees.
std::uint32_t held_at(const ReplayPlan& plan, std::uint32_t budget) {
  return plan.match == Match::visible ? budget - 1 : budget;
}

/// Rows that attend all before them where the plan has it so.
std::uint32_t planned_full_rows(const ReplayPlan& plan) {
  return plan.prefill == Prefill::full ? plan.prompt_tokens : 0;
}

/// Why no optimum bounds a cell: there a query sees itself and what was held.
std::string why_unbounded_at_all(const ReplayPlan& plan, const CellPlan& cell) {
  const PolicyEntry& policy = *cell.policy.entry;
  if (!std::holds_alternative<CacheFactory>(policy.make)) {
    return "nothing leaves its cache for good";
  }
  if (policy.allotment) return "its heads are dealt budgets of their own";
  if (most_visible_before(cell.traits) > held_at(plan, cell.budget.budget.tokens)) {
    return "its queries may see more than the budget shows";
  }
  return "";
}

OptimumPlan optimum_of(const ReplayPlan& plan, std::uint32_t full_rows) {
  OptimumPlan optimum{.replay = plan, .objective = {}, .full_rows = full_rows, .budgets = {}};
  optimum.replay.cells.clear();
  for (const auto& cell : plan.cells) {
    const std::uint32_t held = held_at(plan, cell.budget.budget.tokens);
    optimum.budgets.push_back({cell.budget, held, first_measured(plan, cell.budget, full_rows)});
  }
  auto& budgets = optimum.budgets;
  std::sort(budgets.begin(), budgets.end(),
            [](const auto& one, const auto& other) { return one.held < other.held; });
  budgets.erase(
      std::unique(budgets.begin(), budgets.end(),
                  [](const auto& one, const auto& other) { return one.held == other.held; }),
      budgets.end());
  return optimum;
}

/// None where there are no samples, or some are missing as the replay is not `whole`.
std::optional<LossSplit> split_of(const Summary& loss, const LeastLoss& least, bool whole) {
  if (whole && loss.count != least.samples) {
    throw std::logic_error("a policy's loss is over " + std::to_string(loss.count) +
                           " samples and its optimum's over " + std::to_string(least.samples));
  }
  if (loss.count == 0 || loss.count != least.samples) return std::nullopt;
  return LossSplit{loss.mean, least.mean(least.loss)};
}

}  // namespace

std::string why_unbounded(const ReplayPlan& plan, const CellPlan& cell) {
  const std::string why = why_unbounded_at_all(plan, cell);
  if (!why.empty() || full_rows(plan, cell.traits) == planned_full_rows(plan)) return why;
  return "it attends the prompt in full, and the optimum is of one that streams in";
}

bool Against::whole() const {
  return std::all_of(optima.begin(), optima.end(),
                     [](const auto& optimum) { return optimum.outcome.whole(); });
}

std::string Against::done() const {
  const ReplayPlan& plan = optima.front().plan.replay;
  std::size_t known = 0;
  for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
    known += std::all_of(optima.begin(), optima.end(), [&](const auto& optimum) {
      return !optimum.outcome.units.empty() && !optimum.outcome.units[unit].empty();
    });
  }
  return "of the optimum " + done_of_all(name(plan.scope), known, plan.units.size()) + " are done";
}

Against plan_against(const ReplayPlan& plan) {
  if (!plan.sampling.all()) {
    throw std::invalid_argument("--against optimum: " + plan.trace + " holds only " +
                                in_words(plan.sampling) +
                                ", and an optimum is over all rows; take a trace of all rows");
  }
  Against against;
  const auto optimum_with = [&](std::uint32_t full_rows) {
    for (std::size_t at = 0; at < against.optima.size(); ++at) {
      if (against.optima[at].plan.full_rows == full_rows) return at;
    }
    against.optima.push_back({optimum_of(plan, full_rows), {}});
    return against.optima.size() - 1;
  };
  optimum_with(planned_full_rows(plan));
  for (const auto& cell : plan.cells) {
    auto& place = against.places.emplace_back();
    if (!why_unbounded_at_all(plan, cell).empty()) continue;
    place.emplace();
    place->optimum = optimum_with(full_rows(plan, cell.traits));
    const auto& budgets = against.optima[place->optimum].plan.budgets;
    const std::uint32_t held = held_at(plan, cell.budget.budget.tokens);
    place->budget =
        static_cast<std::size_t>(std::find_if(budgets.begin(), budgets.end(),
                                              [&](const auto& one) { return one.held == held; }) -
                                 budgets.begin());
  }
  return against;
}

void find_optima(const RowSource& source, Against& against, unsigned threads,
                 const RunControl& control) {
  for (auto& [plan, outcome] : against.optima) {
    outcome = find_optimum(source, plan, threads, control);
  }
}

std::vector<std::optional<LossSplit>> overall_splits(const ReplayPlan& plan,
                                                     const ReplayOutcome& outcome,
                                                     const Against& against) {
  Losses losses;
  for (const auto& optimum : against.optima) {
    losses.push_back(optimum.outcome.total(optimum.plan));
  }
  const std::size_t metrics = Metrics(plan).size();
  const bool whole = outcome.units_done == plan.units.size();
  std::vector<std::optional<LossSplit>> splits(plan.cells.size());
  for (std::size_t cell = 0; cell < splits.size(); ++cell) {
    const auto& place = against.places[cell];
    if (!place || !against.optima[place->optimum].outcome.whole()) continue;
    splits[cell] = split_of(outcome.overall[cell * metrics + Metrics::mass_loss()],
                            losses[place->optimum][place->budget], whole);
  }
  return splits;
}

void add_rows(const ReplayPlan& plan, const ReplayOutcome& outcome, const Against& against,
              Results& results) {
  const std::size_t metrics = Metrics(plan).size();
  const bool whole = outcome.units_done == plan.units.size();
  const auto& curve = against.optima.front();
  ResultRow row;
  row.trace = results.text(plan.trace);
  row.scope = name(plan.scope);
  row.statistic = "mean";
  const auto put = [&](std::string_view metric, double value, std::uint64_t samples) {
    row.metric = metric;
    row.value = value;
    row.steps = samples;
    results.rows.push_back(row);
  };
  const auto add = [&](const std::vector<Summary>& summaries, const Losses& losses,
                       std::optional<std::uint32_t> layer, std::optional<std::uint32_t> head) {
    row.layer = layer;
    row.head = head;
    for (std::size_t cell = 0; cell < plan.cells.size(); ++cell) {
      const auto& place = against.places[cell];
      if (!place || losses[place->optimum].empty()) continue;
      const auto split = split_of(summaries[cell * metrics + Metrics::mass_loss()],
                                  losses[place->optimum][place->budget], whole);
      if (!split) continue;
      const CellPlan& one = plan.cells[cell];
      row.policy = results.text(one.policy.text);
      row.parameters = results.text(one.traits.parameters);
      row.budget = results.text(one.budget.text);
      row.budget_tokens = one.budget.budget.tokens;
      const std::uint64_t samples = losses[place->optimum][place->budget].samples;
      put("share_of_optimum", split->share_of_optimum(), samples);
      put("policy_loss", split->policy_loss(), samples);
      put("working_set_loss", split->working_set_loss, samples);
    }
    row.policy = "optimum";
    row.parameters = "";
    for (std::size_t at = 0; at < losses[0].size(); ++at) {
      const LeastLoss& least = losses[0][at];
      const auto& [budget, held, first_row] = curve.plan.budgets[at];
      if (least.samples == 0 && held < plan.tokens) continue;
      row.budget = results.text(budget.text);
      row.budget_tokens = budget.budget.tokens;
      put("mass_loss", least.mean(least.loss), least.samples);
    }
  };
  const auto totals = [&](std::optional<std::uint32_t> layer) {
    Losses losses;
    for (const auto& optimum : against.optima) {
      // What is not whole is no mean over the heads that the policies' means are over.
      losses.push_back(optimum.outcome.whole() ? optimum.outcome.total(optimum.plan, layer)
                                               : std::vector<LeastLoss>());
    }
    return losses;
  };
  add(outcome.overall, totals(std::nullopt), std::nullopt, std::nullopt);
  const auto layers = layers_of(plan);
  for (std::size_t at = 0; at < outcome.layers.size(); ++at) {
    if (!outcome.layers[at].empty()) {
      add(outcome.layers[at], totals(layers[at]), layers[at], std::nullopt);
    }
  }
  for (std::size_t unit = 0; unit < outcome.units.size(); ++unit) {
    if (outcome.units[unit].empty()) continue;
    Losses losses;
    for (const auto& optimum : against.optima) {
      losses.push_back(optimum.outcome.units.empty() ? std::vector<LeastLoss>()
                                                     : optimum.outcome.units[unit]);
    }
    add(outcome.units[unit], losses, plan.units[unit].layer, plan.units[unit].index);
  }
}

}  // namespace kvreplay
