#include "reports/agreement/verdict.hpp"

#include <algorithm>

namespace kvreplay::agreement {

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::holds:
      return "holds";
    case Verdict::fails:
      return "fails";
    case Verdict::undecided:
      return "undecided";
  }
  return "";
}

Verdict judge(const std::optional<Estimate>& extra, const std::optional<Estimate>& future,
              const std::optional<Estimate>& future_null, double margin) {
  if (!extra || !extra->interval) return Verdict::undecided;
  if (extra->interval->low > margin) return Verdict::fails;
  const bool beyond_chance = future && future->interval && future_null && future_null->interval &&
                             future->interval->low > future_null->interval->high;
  return extra->interval->high <= margin && beyond_chance ? Verdict::holds : Verdict::undecided;
}

Judgement judge(std::span<const Agreement* const> traces, std::string_view budget,
                const Place& place, const Bootstrap& bootstrap, double margin) {
  std::vector<std::vector<Point>> extra;
  std::vector<std::vector<Point>> future;
  std::vector<std::vector<Point>> future_null;
  for (const auto* trace : traces) {
    const auto at = budget_position(trace->plan, budget).value();
    const auto overlap = [&](Against against) {
      return points(*trace, place_of(trace->plan, {Scores::raw, against, Measure::overlap, at}),
                    place);
    };
    extra.push_back(points(*trace, at, Loss::extra, place));
    future.push_back(overlap(Against::future));
    future_null.push_back(overlap(Against::future_null));
  }
  Judgement found{.verdict = Verdict::undecided,
                  .extra = estimate(extra, bootstrap),
                  .future = estimate(future, bootstrap),
                  .future_null = estimate(future_null, bootstrap)};
  found.verdict = judge(found.extra, found.future, found.future_null, margin);
  return found;
}

std::optional<std::size_t> budget_position(const AgreementPlan& plan, std::string_view budget) {
  const auto found = std::find_if(plan.budgets.begin(), plan.budgets.end(),
                                  [&](const auto& one) { return one.budget.text == budget; });
  if (found == plan.budgets.end()) return std::nullopt;
  return static_cast<std::size_t>(found - plan.budgets.begin());
}

}  // namespace kvreplay::agreement
