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
      full_rows_(full_rows(plan, cell.traits)),
      clock_(plan.cost),
      samples_(plan, cell) {}

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
  samples_.start();
  zero_mass_rows_ = 0;
}

void Cell::step(std::uint32_t i, std::span<const RowView> rows, Workspace& workspace) {
  evicted_.clear();
  samples_.begin(i);
  if (vectors_) vectors_->let_in(i + 1);
  if (cache_) {
    step_cache(i, rows, workspace);
  } else {
    step_choice(i, rows, workspace);
  }
  if (plan_.cost) measure_cost();
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
  if (samples_.measured()) {
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
    if (sees_all && samples_.measured()) samples_.add_whole_row(row);
    double sum = row.sum;
    if (!sees_all && (samples_.measured() || form != RowForm::none)) {
      sum = row.gather(kept_.tokens(), workspace.row, weights.data());
      if (samples_.measured()) {
        samples_.add_row(row, sum, kept_.bits());
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
  const bool counts =
      samples_.counts() || (i + 1 == full_rows_ && i + 1 >= samples_.first_measured());
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
    if (counts) samples_.evicted(i, evicted_.back());
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
  if (samples_.measured()) {
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

void Cell::measure_output(const RowView& row, std::span<const double> weights, double visible_sum,
                          std::span<double> output) {
  mix_values(weights, kept_.tokens(), row.values, visible_sum, output);
  samples_.add_output_error(output_error(output, row.output));
}

void Cell::measure_cost() {
  const double spent = clock_.taken();
  if (!samples_.counts()) return;
  const std::size_t metric = samples_.metrics().cost();
  samples_.add_counted(metric, spent);
  const auto bytes = cache_ ? cache_->state_bytes() : choice_->state_bytes();
  if (bytes) samples_.add_counted(metric + 1, static_cast<double>(*bytes));
}

void Cell::measure_union(std::uint32_t i, std::span<Cell> heads) {
  CellSamples& first = heads.front().samples_;
  if (!first.counts()) return;
  std::uint32_t tokens = 0;
  for (std::size_t word = 0; word <= i / 64; ++word) {
    std::uint64_t bits = 0;
    for (const Cell& head : heads) bits |= head.kept_.bits().words()[word];
    tokens += static_cast<std::uint32_t>(std::popcount(bits));
  }
  double held = 0;  // over the heads
  for (const Cell& head : heads) held += head.kept_.size();
  constexpr double kBytesOfKeyAndValue = 2 * 2;  // fp16
  const std::size_t metric = first.metrics().unions();
  first.add_counted(metric, tokens);
  const std::uint32_t head_size = heads.front().plan_.head_size;
  if (head_size > 0) first.add_counted(metric + 1, tokens * kBytesOfKeyAndValue * head_size);
  if (held > 0) first.add_counted(metric + 2, tokens * static_cast<double>(heads.size()) / held);
}

}  // namespace kvreplay
