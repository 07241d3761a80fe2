#include "simulator/cell_samples.hpp"

#include <algorithm>

namespace kvreplay {

CellSamples::CellSamples(const ReplayPlan& plan, const CellPlan& cell)
    : plan_(plan),
      metrics_(plan),
      first_measured_(kvreplay::first_measured(plan, cell)),
      samples_(metrics_.no_samples()) {
  if (plan.bins > 0) {
    bin_.assign(samples_.begin(),
                samples_.begin() + static_cast<std::ptrdiff_t>(metrics_.stepwise()));
  }
}

void CellSamples::start() {
  regret_.start(plan_.tokens, plan_.regrets() ? plan_.needed.size() : 0);
  for (auto& samples : samples_) samples.clear();
  for (auto& samples : bin_) samples.clear();
}

// Relative to the row's own sum: rows in half precision sum to 1 only within 1e-3, and a set that
// holds every token must lose exactly nothing.
double CellSamples::loss_of(double row_sum, double visible_sum) {
  return row_sum > 0 ? std::max(0.0, (row_sum - visible_sum) / row_sum) : 0;
}

void CellSamples::add_row(std::uint32_t i, const RowView& row, double visible_sum,
                          const TokenBits& held) {
  add(Metrics::mass_loss(), loss_of(row.sum, visible_sum));
  add_misses(i, row, held);
}

void CellSamples::add_misses(std::uint32_t i, const RowView& row, const TokenBits& held) {
  for (std::size_t rule = 0; rule < row.needed.size(); ++rule) {
    if (row.needed_sizes[rule] == 0) continue;
    const std::uint32_t missing = held.missing(row.needed[rule]);
    add(Metrics::miss(rule), static_cast<double>(missing) / row.needed_sizes[rule]);
    if (missing == 0 || !plan_.regrets()) continue;  // what was evicted is not visible
    regret_.look(rule, i, row.needed[rule], [&](std::uint32_t delay) {
      samples_[metrics_.regret(rule)].add(1);
      samples_[metrics_.delay(rule)].add(delay);
    });
  }
}

void CellSamples::add_whole_row(const RowView& row) {
  add(Metrics::mass_loss(), 0);
  if (plan_.values) add(metrics_.output_error(), 0);
  add_no_misses(row);
}

void CellSamples::add_no_misses(const RowView& row) {
  for (std::size_t rule = 0; rule < row.needed.size(); ++rule) {
    if (row.needed_sizes[rule] != 0) add(Metrics::miss(rule), 0);
  }
}

void CellSamples::add_set(std::uint32_t i, std::uint32_t kept, std::uint64_t sum_of_tokens,
                          std::uint32_t visible, std::optional<double> turnover) {
  add(metrics_.kept(), kept);
  add(metrics_.visible(), visible);
  if (turnover) add(metrics_.turnover(), *turnover);
  if (kept > 0) add(metrics_.age(), i - static_cast<double>(sum_of_tokens) / kept);
}

void CellSamples::add_steps(std::uint32_t first, std::span<const CacheStep> steps) {
  if (!bin_.empty()) add_steps(steps, first, bin_);
  const std::uint32_t skipped = first_measured_ - std::min(first_measured_, first);
  if (skipped < steps.size()) add_steps(steps.subspan(skipped), first + skipped, samples_);
}

void CellSamples::add_steps(std::span<const CacheStep> steps, std::uint32_t first,
                            std::vector<Samples>& to) {
  for (const CacheStep& step : steps) {
    to[Metrics::mass_loss()].add(loss_of(step.row_sum, step.visible_sum));
  }
  for (std::size_t at = 0; at < steps.size(); ++at) {
    const CacheStep& step = steps[at];
    const double before = step.visible - 1.0;
    to[metrics_.turnover()].add(before > 0 && step.evicts_older ? 1 / before : 0);
    const double kept = step.kept();
    if (kept == 0) continue;
    const double i = first + static_cast<double>(at);
    to[metrics_.age()].add(i - static_cast<double>(step.sum_of_tokens) / kept);
  }
  // Mostly all are as large. Whole numbers: however they are added, the sum is the same.
  for (std::size_t at = 0; at < steps.size();) {
    const CacheStep& step = steps[at];
    std::uint32_t times = 0;
    for (; at < steps.size() && steps[at].as_large_as(step); ++at) ++times;
    to[metrics_.kept()].add(step.kept(), times);
    to[metrics_.visible()].add(step.visible, times);
  }
}

void CellSamples::finish() {
  if (!plan_.regrets()) return;
  for (std::size_t rule = 0; rule < plan_.needed.size(); ++rule) {
    auto& regret = samples_[metrics_.regret(rule)];
    regret.add_zeros(regret_.evictions() - regret.count());
  }
}

}  // namespace kvreplay
