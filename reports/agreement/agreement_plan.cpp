#include "reports/agreement/agreement_plan.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "simulator/pooled_rows.hpp"
#include "simulator/series.hpp"

namespace kvreplay::agreement {

namespace {

ReplayRequest replay_request(const AgreementRequest& request) {
  ReplayRequest replay;
  replay.budgets = request.budgets;
  replay.layers = request.layers;
  replay.heads = request.heads;
  return replay;
}

}  // namespace

std::uint32_t AgreementPlan::step(std::uint32_t checkpoint) const {
  return bin_at(replay, checkpoint).last - 1;
}

std::uint32_t AgreementPlan::active_rows(std::size_t budget, std::uint32_t segment) const {
  const auto rows = bin_at(replay, segment);
  const auto first =
      std::max(rows.first, first_measured(replay, replay.cells[budgets[budget].h2o]));
  return rows.last > first ? rows.last - first : 0;
}

AgreementPlan plan_agreement(const TraceInfo& info, std::string_view trace,
                             const AgreementRequest& request) {
  if (!info.sampling.all()) {
    throw std::invalid_argument(std::string(trace) + " holds only " + in_words(info.sampling) +
                                ", and accumulated attention is of every row; capture without "
                                "--rows-from and --rows-every");
  }
  if (info.tokens < 2) {
    throw std::invalid_argument(std::string(trace) +
                                " has a single token, and what is local and what is global is "
                                "the same; take a longer trace");
  }
  for (const auto& budget : request.budgets) {
    if (budget.unit == BudgetRequest::Unit::every) {
      throw std::invalid_argument(
          "--budget all is for curves; scores are compared at chosen budgets, such as 5%,20%");
    }
  }
  ReplayRequest replay = replay_request(request);
  // Where every budget holds all tokens the others have no plan, and it is not asked for one.
  replay.policies = parse_policies("full,h2o,h2o-global");
  replay.bins = request.checkpoints + 1;
  AgreementPlan plan{.replay = plan_replay(info, trace, replay),
                     .budgets = {},
                     .holding_all = {},
                     .quantities = {}};
  plan.rbo_p = request.rbo_p;
  plan.seed = request.seed;
  // Of what queries see only its mass is measured, from rows as they are.
  plan.replay.values = false;
  plan.replay.only_visible = false;
  const std::size_t budgets = plan.replay.cells.size() / 3;
  for (std::size_t at = 0; at < budgets; ++at) {
    const auto& budget = plan.replay.cells[at].budget;
    if (budget.budget.tokens < info.tokens) {
      plan.budgets.push_back({budget, budgets + at, 2 * budgets + at});
    } else {
      plan.holding_all.push_back(budget);
    }
  }
  plan.quantities = all_quantities(plan.budgets.size());
  return plan;
}

OptimumPlan plan_optimum(const TraceInfo& info, std::string_view trace,
                         const AgreementRequest& request) {
  return kvreplay::plan_optimum(info, trace, replay_request(request), Objective{});
}

std::uint64_t estimated_bytes(const AgreementPlan& plan, unsigned threads) {
  const std::uint64_t n = plan.replay.tokens;
  const std::uint64_t units = plan.replay.units.size();
  // At each checkpoint half of the tokens have come, on average.
  const std::uint64_t sums = n / 2 * (2 + plan.budgets.size()) * plan.segments() * sizeof(double);
  const std::uint64_t held = n / 2 * plan.budgets.size() * plan.segments() * sizeof(std::uint32_t);
  const std::uint64_t of_head =
      (plan.quantities.size() * plan.checkpoints() + 2 * plan.budgets.size() * plan.segments()) *
      sizeof(double);
  const std::uint64_t scratch = 4 * kSlabValues * sizeof(float) + 200 * n;
  return std::min<std::uint64_t>(threads, units) * (sums + held + scratch) + units * of_head;
}

}  // namespace kvreplay::agreement
