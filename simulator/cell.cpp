#include "simulator/cell.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>

#include "simulator/outputs.hpp"
#include "simulator/pooled_rows.hpp"
#include "simulator/row_sums.hpp"

namespace kvreplay {
Cell::Cell(const ReplayPlan& plan, const CellPlan& cell)
    : plan_(plan),
      cell_(cell),
      metrics_(plan),
      first_measured_(first_measured(plan, cell)),
      full_rows_(full_rows(plan, cell.traits)),
      clock_(plan.cost),
      samples_(metrics_.no_samples()) {
  if (plan.bins > 0) {
    bin_.assign(samples_.begin(),
                samples_.begin() + static_cast<std::ptrdiff_t>(metrics_.stepwise()));
  }
}

void Cell::start(std::size_t unit, std::span<const double> column_sums,
                 const HeadVectors::Sequence& vectors) {
  auto seen = plan_.vectors ? std::make_unique<HeadVectors>(vectors) : nullptr;
  const Setting setting = setting_of(plan_, cell_, unit, column_sums, seen.get());
  const auto& policy = cell_.policy;
  if (const auto* make = std::get_if<CacheFactory>(&policy.entry->make)) {
    cache_ = (*make)(policy.arguments, setting);
  } else {
    choice_ = std::get<ChoiceFactory>(policy.entry->make)(policy.arguments, setting);
  }
  vectors_ = std::move(seen);
  kept_.clear(plan_.tokens);
  evicted_.clear();
  before_known_ = true;  // nothing
  regret_.start(plan_.tokens, plan_.regrets() ? plan_.needed.size() : 0);
  for (auto& samples : samples_) samples.clear();
  for (auto& samples : bin_) samples.clear();
  zero_mass_rows_ = 0;
}

void Cell::step(std::uint32_t i, std::span<const RowView> rows, Workspace& workspace) {
  evicted_.clear();
  counts_ = i >= first_measured_ && plan_.sampling.holds(i);
  if (vectors_) vectors_->let_in(i + 1);
  if (cache_) {
    step_cache(i, rows, workspace);
  } else {
    step_choice(i, rows, workspace);
  }
  if (plan_.cost) measure_cost();
}

void Cell::finish() {
  if (!plan_.regrets()) return;
  for (std::size_t rule = 0; rule < plan_.needed.size(); ++rule) {
    auto& regret = samples_[metrics_.regret(rule)];
    regret.add_zeros(regret_.evictions() - regret.count());
  }
}

void Cell::step_cache(std::uint32_t i, std::span<const RowView> rows, Workspace& workspace) {
  const Traits& traits = cache_->traits();
  const bool full = i < full_rows_;
  const std::uint32_t held_before = kept_.size();
  const bool hides_newcomer = !full && !traits.sees_newcomer && held_before >= traits.capacity;
  if (!hides_newcomer) kept_.append(i);
  if (traits.evicts_first && !full) evict(i);
  // A cache that holds the whole sequence never asks its policy.
  const RowForm form = holds_all(plan_, traits) ? RowForm::none : traits.rows;
  const auto visible = kept_.size();
  const auto weights = attend(i, rows, form, workspace);
  if (hides_newcomer) kept_.append(i);
  if (form != RowForm::none) {
    const PolicyClock::Lap lap(clock_);
    cache_->observe({i, kept_.tokens()}, weights);
  }
  if (!traits.evicts_first ? i + 1 >= full_rows_ : i + 1 == full_rows_) evict(i);
  if (measures(i)) {
    const auto left = std::count_if(evicted_.begin(), evicted_.end(),
                                    [i](std::uint32_t token) { return token != i; });
    measure_set(i, visible, held_before == 0 ? 0 : static_cast<double>(left) / held_before);
  }
}

std::span<const double> Cell::attend(std::uint32_t i, std::span<const RowView> rows, RowForm form,
                                     Workspace& workspace) {
  const std::uint32_t visible = kept_.size();
  const bool sees_all = visible == i + 1;
  const std::span weights = std::span(workspace.weights).first(visible);
  const std::span shared_weights = std::span(workspace.shared_weights).first(visible);
  const bool shared = rows.size() > 1;
  if (form != RowForm::none && shared) std::fill(shared_weights.begin(), shared_weights.end(), 0.0);
  for (const RowView& row : rows) {
    if (sees_all && measures(i)) measure_whole_row(row);
    double sum = row.sum;
    if (!sees_all && (measures(i) || form != RowForm::none)) {
      sum = row.gather(kept_.tokens(), workspace.row, weights.data());
      if (measures(i)) {
        measure_row(i, row, sum);
        if (plan_.values) measure_output(row, weights, sum, workspace.output);
      }
    } else if (form != RowForm::none) {
      row.gather(kept_.tokens(), workspace.row, weights.data());
    }
    if (form == RowForm::none) continue;
    double scale = 1;
    if (form == RowForm::renormalised) {
      if (!(sum > 0)) ++zero_mass_rows_;
      scale = sum > 0 ? 1 / sum : 0;
    }
    if (scale != 1) {
      for (double& weight : weights) weight *= scale;
    }
    if (shared) pool_row(plan_.pooling, weights, shared_weights);
  }
  if (!shared) return weights;
  if (form != RowForm::none) finish_pool(plan_.pooling, rows.size(), shared_weights);
  return shared_weights;
}

void Cell::evict(std::uint32_t i) {
  // What leaves a prompt that was attended in full is first missed by the step behind it.
  const bool counts = counts_ || (i + 1 == full_rows_ && i + 1 >= first_measured_);
  const auto victim = [&] {
    const PolicyClock::Lap lap(clock_);
    return cache_->victim({i, kept_.tokens()});
  };
  while (const auto slot = victim()) {
    if (index(*slot) >= kept_.size()) {
      throw std::logic_error("policy " + full_name(cell_) + " evicts slot " +
                             std::to_string(index(*slot)) + " of " + std::to_string(kept_.size()) +
                             " at step " + std::to_string(i));
    }
    evicted_.push_back(kept_.erase(*slot));
    if (counts) regret_.evicted(i, evicted_.back());
    const PolicyClock::Lap lap(clock_);
    cache_->dropped(*slot);
  }
  if (kept_.size() > cache_->traits().capacity) {
    throw std::logic_error("policy " + full_name(cell_) + " keeps " + std::to_string(kept_.size()) +
                           " tokens after step " + std::to_string(i) + ", more than the " +
                           std::to_string(cache_->traits().capacity) + " that it may hold");
  }
}

void Cell::step_choice(std::uint32_t i, std::span<const RowView> rows, Workspace& workspace) {
  const Traits& traits = choice_->traits();
  if (rows.empty() && traits.whole_row != WholeRow::none) {
    before_known_ = false;
    return;
  }
  auto& chosen = workspace.chosen;
  chosen.assign(kept_.tokens().begin(), kept_.tokens().end());
  const auto row =
      traits.whole_row != WholeRow::none ? pool(rows, workspace) : std::span<const double>();
  {
    const PolicyClock::Lap lap(clock_);
    choice_->choose(i, row, chosen);
  }
  if (i < full_rows_) {
    chosen.resize(i);
    std::iota(chosen.begin(), chosen.end(), 0U);
  } else {
    check_choice(i, chosen);
  }

  const std::uint32_t held_before = kept_.size();
  before_ = kept_.bits();
  chosen.push_back(i);
  kept_.replace(chosen);
  const std::uint32_t left = kept_.bits().missing(before_.words());
  const std::uint32_t visible = kept_.size();
  const auto weights = attend(i, rows, traits.rows, workspace);
  if (traits.rows != RowForm::none) {
    const PolicyClock::Lap lap(clock_);
    choice_->observe({i, kept_.tokens()}, weights);
  }
  kept_.erase(Slot{visible - 1});
  if (measures(i)) {
    const double share = held_before == 0 ? 0 : static_cast<double>(left) / held_before;
    measure_set(i, visible, before_known_ ? std::optional(share) : std::nullopt);
  }
  before_known_ = true;
}

std::span<const double> Cell::pool(std::span<const RowView> rows, Workspace& workspace) const {
  const std::span pooled = std::span(workspace.shared_weights).first(rows[0].weights.size());
  copy_row(rows[0].weights, pooled.data());
  for (const RowView& row : rows.subspan(1)) {
    copy_row(row.weights, workspace.weights.data());
    pool_row(plan_.pooling, std::span(workspace.weights).first(pooled.size()), pooled);
  }
  finish_pool(plan_.pooling, rows.size(), pooled);
  return pooled;
}

void Cell::check_choice(std::uint32_t i, std::span<const std::uint32_t> chosen) const {
  bool valid = chosen.size() <= choice_->traits().capacity;
  for (std::size_t at = 0; at < chosen.size(); ++at) {
    valid = valid && chosen[at] < i && (at == 0 || chosen[at - 1] < chosen[at]);
  }
  if (!valid) {
    throw std::logic_error("policy " + full_name(cell_) + " chose tokens for row " +
                           std::to_string(i) +
                           " that do not ascend, are not earlier or are too many");
  }
}

void Cell::add(std::size_t metric, double sample) {
  if (counts_) samples_[metric].add(sample);
  if (!bin_.empty()) bin_[metric].add(sample);
}

void Cell::measure_row(std::uint32_t i, const RowView& row, double visible_sum) {
  // Relative to the row's own sum: rows in half precision sum to 1 only within 1e-3, and a set that
  // holds every token must lose exactly nothing.
  const double loss = row.sum > 0 ? (row.sum - visible_sum) / row.sum : 0;
  add(Metrics::mass_loss(), std::max(0.0, loss));
  for (std::size_t rule = 0; rule < row.needed.size(); ++rule) {
    if (row.needed_sizes[rule] == 0) continue;
    const std::uint32_t missing = kept_.bits().missing(row.needed[rule]);
    add(Metrics::miss(rule), static_cast<double>(missing) / row.needed_sizes[rule]);
    if (missing == 0 || !plan_.regrets()) continue;  // what was evicted is not visible
    regret_.look(rule, i, row.needed[rule], [&](std::uint32_t delay) {
      samples_[metrics_.regret(rule)].add(1);
      samples_[metrics_.delay(rule)].add(delay);
    });
  }
}

void Cell::measure_output(const RowView& row, std::span<const double> weights, double visible_sum,
                          std::span<double> output) {
  mix_values(weights, kept_.tokens(), row.values, visible_sum, output);
  add(metrics_.output_error(), output_error(output, row.output));
}

void Cell::measure_whole_row(const RowView& row) {
  add(Metrics::mass_loss(), 0);
  if (plan_.values) add(metrics_.output_error(), 0);
  for (std::size_t rule = 0; rule < row.needed.size(); ++rule) {
    if (row.needed_sizes[rule] != 0) add(Metrics::miss(rule), 0);
  }
}

void Cell::measure_set(std::uint32_t i, std::uint32_t visible, std::optional<double> turnover) {
  add(metrics_.kept(), kept_.size());
  add(metrics_.visible(), visible);
  if (turnover) add(metrics_.turnover(), *turnover);
  if (kept_.size() > 0) add(metrics_.age(), i - kept_.mean_token());
}

void Cell::measure_cost() {
  const double spent = clock_.taken();
  if (!counts_) return;
  samples_[metrics_.cost()].add(spent);
  const auto bytes = cache_ ? cache_->state_bytes() : choice_->state_bytes();
  if (bytes) samples_[metrics_.cost() + 1].add(static_cast<double>(*bytes));
}

void Cell::measure_union(std::uint32_t i, std::span<Cell> heads) {
  Cell& first = heads.front();
  if (!first.counts_) return;
  std::uint32_t tokens = 0;
  for (std::size_t word = 0; word <= i / 64; ++word) {
    std::uint64_t bits = 0;
    for (const Cell& head : heads) bits |= head.kept_.bits().words()[word];
    tokens += static_cast<std::uint32_t>(std::popcount(bits));
  }
  double held = 0;  // over the heads
  for (const Cell& head : heads) held += head.kept_.size();
  constexpr double kBytesOfKeyAndValue = 2 * 2;  // fp16
  const std::size_t metric = first.metrics_.unions();
  first.samples_[metric].add(tokens);
  if (first.plan_.head_size > 0) {
    first.samples_[metric + 1].add(tokens * kBytesOfKeyAndValue * first.plan_.head_size);
  }
  if (held > 0) first.samples_[metric + 2].add(tokens * static_cast<double>(heads.size()) / held);
}

}  // namespace kvreplay
