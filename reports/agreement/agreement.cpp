#include "reports/agreement/agreement.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "simulator/pooled_rows.hpp"

namespace kvreplay::agreement {

std::size_t Agreement::done() const {
  return static_cast<std::size_t>(
      std::count_if(heads.begin(), heads.end(), [](const auto& head) { return head.has_value(); }));
}

Agreement find_agreement(const RowSource& source, const AgreementPlan& plan, unsigned threads,
                         const RunControl& control) {
  const std::size_t units = plan.replay.units.size();
  Agreement agreement{.plan = plan, .heads = {}, .optimum = std::nullopt};
  agreement.heads.resize(units);
  std::atomic<std::size_t> next_unit{0};
  std::atomic<bool> failed{false};
  const auto stopped = [&] { return failed.load(std::memory_order_relaxed) || control.stopped(); };
  std::mutex mutex;
  std::uint64_t done = 0;
  const auto work = [&] {
    HeadStudy study(source, plan);
    for (std::size_t unit = next_unit++; unit < units && !stopped(); unit = next_unit++) {
      auto found = study.of(unit, stopped);
      if (!found) continue;
      const std::scoped_lock lock(mutex);
      agreement.heads[unit] = std::move(found);
      control.report("heads", ++done, units);
    }
  };
  on_threads(std::min<std::size_t>(threads, units), failed, work);
  return agreement;
}

void add_optimum(const RowSource& source, const OptimumPlan& plan, unsigned threads,
                 const RunControl& control, Agreement& agreement) {
  auto outcome = find_optimum(source, plan, threads, control);
  if (outcome.whole()) agreement.optimum = std::move(outcome.units);
}

std::vector<Point> points(const Agreement& agreement, std::size_t quantity, const Place& place) {
  const auto& plan = agreement.plan;
  std::vector<Point> sums(plan.checkpoints());
  for (std::size_t unit = 0; unit < agreement.heads.size(); ++unit) {
    const auto& head = agreement.heads[unit];
    if (!head || !place.holds(plan.replay.units[unit])) continue;
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
  for (std::size_t unit = 0; unit < agreement.heads.size(); ++unit) {
    const auto& head = agreement.heads[unit];
    if (!head || !place.holds(plan.replay.units[unit])) continue;
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
  for (std::size_t unit = 0; unit < agreement.heads.size(); ++unit) {
    if (place.holds(agreement.plan.replay.units[unit])) sum += (*agreement.optimum)[unit][budget];
  }
  if (sum.samples == 0) return std::nullopt;
  return sum.mean(sum.loss);
}

std::size_t place_of(const AgreementPlan& plan, const Quantity& quantity) {
  const auto& all = plan.quantities;
  return static_cast<std::size_t>(std::find(all.begin(), all.end(), quantity) - all.begin());
}

}  // namespace kvreplay::agreement
