#include "simulator/cell_samples.hpp"

#include <algorithm>
#include <array>

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

void CellSamples::add_row(const RowView& row, double visible_sum, const TokenBits& held) {
  add(Metrics::mass_loss(), loss_of(row.sum, visible_sum));
  if (row.needed.rules() > 0) add_misses(row.needed, NeededBySome(row.needed), held, {});
}

void CellSamples::add_misses(const NeededRows& needed, const NeededBySome& some,
                             const TokenBits& held, std::span<const std::uint32_t> left) {
  const TokenBits* before = &held;
  if (!left.empty()) {
    before = &before_;
    before_ = held;
    for (const std::uint32_t token : left) {
      if (token != kNone) before_.set(token);
    }
  }
  const std::size_t rules = needed.rules();
  missing_.resize(needed.rows() * rules);
  for (std::size_t row = 0; row < needed.rows(); ++row) {
    if (needed.step(row) >= first_measured_ || !bin_.empty()) {
      const auto first = needed.set(row, 0);
      kernels_->count_missing(first.data(), rules, needed.words_apart(), before->words().data(),
                              first.size(), &missing_[row * rules]);
    }
    if (!left.empty() && left[row] != kNone) before_.reset(left[row]);
  }
  for (std::size_t rule = 0; rule < rules; ++rule) {
    std::array<double, kTileRows> misses;
    std::size_t count = 0;
    std::size_t skipped = 0;  // of rows that statistics do not go over; they come first
    for (std::size_t row = 0; row < needed.rows(); ++row) {
      const std::uint32_t size = needed.size(row, rule);
      if (size == 0) continue;
      misses[count++] = static_cast<double>(missing_[row * rules + rule]) / size;
      if (needed.step(row) < first_measured_) skipped = count;
    }
    const auto all = std::span(misses).first(count);
    samples_[Metrics::miss(rule)].add(all.subspan(skipped));
    if (!bin_.empty()) bin_[Metrics::miss(rule)].add(all);
  }
  if (!plan_.regrets()) return;
  for (std::size_t first = 0; first < needed.rows(); first += NeededBySome::kRows) {
    const NeededRows rows = needed.part(first, NeededBySome::kRows);
    for (std::size_t row = 0; row < rows.rows() && !left.empty(); ++row) {
      const std::uint32_t token = left[first + row];
      if (token != kNone && rows.step(row) >= first_measured_) {
        regret_.evicted(rows.step(row), token);
      }
    }
    for (std::size_t rule = 0; rule < rules; ++rule) {
      const auto any = some.set(first / NeededBySome::kRows, rule);
      regret_.look(rule, rows, any, !left.empty(), *kernels_);
    }
  }
}

void CellSamples::add_whole_row(const RowView& row) {
  add(Metrics::mass_loss(), 0);
  if (plan_.values) add(metrics_.output_error(), 0);
  add_no_misses(row.needed);
}

void CellSamples::add_no_misses(const NeededRows& needed) {
  for (std::size_t rule = 0; rule < needed.rules(); ++rule) {
    for (std::size_t row = 0; row < needed.rows(); ++row) {
      if (needed.size(row, rule) == 0) continue;
      if (needed.step(row) >= first_measured_) samples_[Metrics::miss(rule)].add(0);
      if (!bin_.empty()) bin_[Metrics::miss(rule)].add(0);
    }
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
    const auto delays = regret_.delays(rule);
    for (const std::uint32_t delay : delays) samples_[metrics_.delay(rule)].add(delay);
    auto& regret = samples_[metrics_.regret(rule)];
    regret.add_zeros(regret_.evictions() - delays.size());
    if (!delays.empty()) regret.add(1, static_cast<std::uint32_t>(delays.size()));
  }
}

}  // namespace kvreplay
