#include "simulator/cell_samples.hpp"

#include <algorithm>

namespace kvreplay {

CellSamples::CellSamples(const ReplayPlan& plan, const CellPlan& cell)
    : plan_(plan),
      kernels_(&available_kernels().front()->needed),
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
    const auto needed = row.needed[rule];
    // What waits to be needed again has left: where there are no regrets it is not looked at.
    const auto& waiting = plan_.regrets() ? regret_.waiting(rule) : held;
    std::uint32_t missing = 0;
    for (std::size_t first = 0; first < needed.size(); first += kMostWords) {
      const auto here = kernels_->count_missing(needed.data() + first, held.words().data() + first,
                                                waiting.words().data() + first,
                                                std::min(kMostWords, needed.size() - first));
      missing += here.tokens;
      if (!plan_.regrets()) continue;
      regret_.look(rule, i, needed, first, here.waited_for,
                   [&](std::uint32_t delay) { samples_[metrics_.delay(rule)].add(delay); });
    }
    add(Metrics::miss(rule), static_cast<double>(missing) / row.needed_sizes[rule]);
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
    const auto times = samples_[metrics_.delay(rule)].count();  // one of each that was regretted
    auto& regret = samples_[metrics_.regret(rule)];
    regret.add_zeros(regret_.evictions() - times);
    if (times > 0) regret.add(1, static_cast<std::uint32_t>(times));
  }
}

}  // namespace kvreplay
