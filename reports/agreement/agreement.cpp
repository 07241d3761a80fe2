#include "reports/agreement/agreement.hpp"

#include <algorithm>
#include <cmath>

#include "reports/each_unit.hpp"
#include "reports/quantile.hpp"

namespace kvreplay::agreement {

std::size_t Agreement::done() const {
  return static_cast<std::size_t>(
      std::count_if(heads.begin(), heads.end(), [](const auto& head) { return head.has_value(); }));
}

Agreement find_agreement(const RowSource& source, const AgreementPlan& plan, unsigned threads,
                         const RunControl& control) {
  Agreement agreement{.plan = plan, .heads = {}, .optimum = std::nullopt};
  agreement.heads.resize(plan.replay.units.size());
  each_unit(agreement.heads.size(), threads, control, [&] {
    return [&, study = HeadStudy(source, plan)](
               std::size_t unit, const std::function<bool()>& stopped) mutable -> HandOver {
      auto found = study.of(unit, stopped);
      if (!found) return {};
      return [&agreement, unit, found] { agreement.heads[unit] = found; };
    };
  });
  return agreement;
}

void add_optimum(const RowSource& source, const OptimumPlan& plan, unsigned threads,
                 const RunControl& control, Agreement& agreement) {
  auto outcome = find_optimum(source, plan, threads, control);
  if (outcome.whole()) agreement.optimum = std::move(outcome.units);
}

std::pair<std::size_t, std::size_t> Place::units(const ReplayPlan& plan) const {
  if (!layer) return {0, plan.units.size()};
  const auto begin = plan.units.begin();  // by layer, then by head
  const auto first = std::partition_point(begin, plan.units.end(), [&](const UnitPlan& unit) {
    return std::pair(unit.layer, unit.index) < std::pair(*layer, head.value_or(0));
  });
  const auto last = std::partition_point(first, plan.units.end(), [&](const UnitPlan& unit) {
    return std::pair(unit.layer, unit.index) <= std::pair(*layer, head.value_or(UINT32_MAX));
  });
  return {first - begin, last - begin};
}

std::vector<Point> points(const Agreement& agreement, std::size_t quantity, const Place& place) {
  const auto& plan = agreement.plan;
  std::vector<Point> sums(plan.checkpoints());
  const auto [first, last] = place.units(plan.replay);
  for (std::size_t unit = first; unit < last; ++unit) {
    const auto& head = agreement.heads[unit];
    if (!head) continue;
    for (std::size_t at = 0; at < sums.size(); ++at) {
      const double value = head->values[quantity * sums.size() + at];
      if (std::isnan(value)) continue;
      sums[at].sum += value;
      sums[at].count += 1;
    }
  }
  return sums;
}

std::vector<Point> points(const Agreement& agreement, std::size_t budget, Loss loss,
                          const Place& place) {
  const auto& plan = agreement.plan;
  std::vector<Point> sums(plan.segments());
  const auto [first, last] = place.units(plan.replay);
  for (std::size_t unit = first; unit < last; ++unit) {
    const auto& head = agreement.heads[unit];
    if (!head) continue;
    for (std::uint32_t segment = 0; segment < sums.size(); ++segment) {
      const std::uint32_t rows = plan.active_rows(budget, segment);
      if (rows == 0) continue;
      const std::size_t at = budget * sums.size() + segment;
      if (loss != Loss::h2o_global) sums[segment].sum += head->h2o_loss[at];
      if (loss == Loss::h2o_global) sums[segment].sum += head->h2o_global_loss[at];
      if (loss == Loss::extra) sums[segment].sum -= head->h2o_global_loss[at];
      sums[segment].count += rows;
    }
  }
  return sums;
}

std::optional<double> optimum_loss(const Agreement& agreement, std::size_t budget,
                                   const Place& place) {
  if (!agreement.optimum) return std::nullopt;
  LeastLoss sum;
  const auto [first, last] = place.units(agreement.plan.replay);
  for (std::size_t unit = first; unit < last; ++unit) sum += (*agreement.optimum)[unit][budget];
  if (sum.samples == 0) return std::nullopt;
  return sum.mean(sum.loss);
}

std::optional<Interval> spread_of_heads(const Agreement& agreement, std::size_t quantity,
                                        std::uint32_t checkpoint) {
  std::vector<double> values;
  for (const auto& head : agreement.heads) {
    if (!head) continue;
    const double value = head->values[quantity * agreement.plan.checkpoints() + checkpoint];
    if (!std::isnan(value)) values.push_back(value);
  }
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return Interval{quantile(values, 0.05), quantile(values, 0.95)};
}

std::size_t place_of(const AgreementPlan& plan, const Quantity& quantity) {
  const auto& all = plan.quantities;
  return static_cast<std::size_t>(std::find(all.begin(), all.end(), quantity) - all.begin());
}

}  // namespace kvreplay::agreement
