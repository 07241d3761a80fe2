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

namespace {

/// At the steps that both are measured at, one less the other.
std::vector<Point> difference(const std::vector<Point>& of, const std::vector<Point>& minus) {
  std::vector<Point> points;
  for (std::size_t at = 0; at < of.size(); ++at) {
    if (of[at].count == 0 || minus[at].count == 0) continue;
    const double less = minus[at].sum / minus[at].count;
    points.push_back({of[at].sum - of[at].count * less, of[at].count});
  }
  return points;
}

}  // namespace

Verdict judge(const std::optional<Estimate>& extra, const std::optional<Estimate>& beyond,
              double margin) {
  const auto known = [](const auto& estimate) { return estimate && estimate->interval; };
  if ((known(extra) && extra->interval->low > margin) ||
      (known(beyond) && beyond->interval->high < 0)) {
    return Verdict::fails;
  }
  if (!known(extra) || !known(beyond)) return Verdict::undecided;
  return extra->interval->high <= margin && beyond->interval->low > 0 ? Verdict::holds
                                                                      : Verdict::undecided;
}

Judgement judge(std::span<const Agreement* const> traces, std::string_view budget,
                const Place& place, const Bootstrap& bootstrap, double margin) {
  std::vector<std::vector<Point>> extra;
  std::vector<std::vector<Point>> future;
  std::vector<std::vector<Point>> future_null;
  std::vector<std::vector<Point>> beyond;
  for (const auto* trace : traces) {
    const auto at = budget_position(trace->plan, budget).value();
    const auto overlap = [&](Against against) {
      return points(*trace, place_of(trace->plan, {Scores::raw, against, Measure::overlap, at}),
                    place);
    };
    extra.push_back(points(*trace, at, Loss::extra, place));
    future.push_back(overlap(Against::future));
    future_null.push_back(overlap(Against::future_null));
    beyond.push_back(difference(future.back(), future_null.back()));
  }
  Judgement found{.verdict = Verdict::undecided,
                  .extra = estimate(extra, bootstrap),
                  .future = estimate(future, bootstrap),
                  .future_null = estimate(future_null, bootstrap),
                  .beyond = estimate(beyond, bootstrap)};
  found.verdict = judge(found.extra, found.beyond, margin);
  return found;
}

std::optional<std::size_t> budget_position(const AgreementPlan& plan, std::string_view budget) {
  const auto found = std::find_if(plan.budgets.begin(), plan.budgets.end(),
                                  [&](const auto& one) { return one.budget.text == budget; });
  if (found == plan.budgets.end()) return std::nullopt;
  return static_cast<std::size_t>(found - plan.budgets.begin());
}

}  // namespace kvreplay::agreement
