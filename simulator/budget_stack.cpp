#include "simulator/budget_stack.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace kvreplay {

using By = LowestLeaves::By;

bool BudgetStack::serves(const ReplayPlan& plan, const CellPlan& cell) {
  const Traits& traits = cell.traits;
  // A sum of divided rows depends on what the budget lets queries see.
  const bool alike =
      traits.lowest_leaves && (traits.lowest_leaves->by != By::sum || traits.rows == RowForm::raw);
  return alike && plan.needed.empty() && plan.sampling.all() && !plan.values && !plan.unions &&
         !plan.cost && !plan.only_visible && full_rows(plan, traits) == 0 &&
         std::all_of(plan.units.begin(), plan.units.end(),
                     [](const UnitPlan& unit) { return unit.heads.size() == 1; });
}

bool BudgetStack::together(const CellPlan& one, const CellPlan& other) {
  return one.policy.entry == other.policy.entry && one.policy.text == other.policy.text &&
         one.traits.lowest_leaves == other.traits.lowest_leaves;
}

BudgetStack::BudgetStack(const ReplayPlan& plan, std::span<const std::size_t> cells)
    : rule_(*plan.cells[cells.front()].traits.lowest_leaves),
      smallest_(plan.cells[cells.front()].traits.capacity),
      largest_(plan.cells[cells.back()].traits.capacity) {
  budgets_.reserve(cells.size());
  for (const std::size_t cell : cells) {
    const Traits& traits = plan.cells[cell].traits;
    budgets_.push_back({.cell = cell,
                        .tokens = traits.capacity,
                        .divides = traits.rows == RowForm::renormalised && !holds_all(plan, traits),
                        .samples = CellSamples(plan, plan.cells[cell])});
  }
  stack_.reserve(std::min(largest_, plan.tokens));
}

void BudgetStack::start(std::span<const double> column_sums) {
  column_sums_ = column_sums;
  stack_.clear();
  for (auto& budget : budgets_) {
    budget.samples.start();
    budget.zero_mass_rows = 0;
  }
}

void BudgetStack::step(RowRange rows, const RowViews& views, const AfterStep& after) {
  for (std::uint32_t i = rows.first; i < rows.last; ++i) step_row(i, views.row(i)[0], after);
}

void BudgetStack::step_row(std::uint32_t i, const RowView& row, const AfterStep& after) {
  attend(i, row);
  evict(i, newcomer(i, row));
  for (std::size_t place = 0; place < budgets_.size(); ++place) {
    measure(i, row, budgets_[place]);
    if (after) after(place, i);
  }
}

BudgetStack::Entry BudgetStack::newcomer(std::uint32_t i, const RowView& row) const {
  switch (rule_.by) {
    case By::age:
      return {0, i};
    case By::last_weight:
    case By::sum:
      return {row.weights[i], i};
    case By::column_sum:
      return {column_sums_[i], i};
  }
  throw std::logic_error("unknown order of a stack");
}

void BudgetStack::attend(std::uint32_t i, const RowView& row) {
  const float* const weights = row.weights.data();
  double sum = weights[i];
  auto budget = budgets_.begin();
  for (std::uint32_t held = 0; held < stack_.size();) {
    Entry& entry = stack_[held];
    const double weight = weights[entry.token];
    sum += weight;
    if (rule_.by == By::sum) entry.number += weight;
    if (rule_.by == By::last_weight) entry.number = weight;
    ++held;
    for (; budget != budgets_.end() && budget->tokens == held; ++budget) budget->visible_sum = sum;
  }
  for (; budget != budgets_.end(); ++budget) budget->visible_sum = row.sum;  // they see all
}

void BudgetStack::evict(std::uint32_t i, Entry newcomer) {
  for (auto& budget : budgets_) budget.evicted.reset();
  if (stack_.size() < smallest_) {
    stack_.push_back(newcomer);
  } else {
    Entry leaves = exchange(i, newcomer);
    auto budget = budgets_.begin();
    for (std::uint32_t held = smallest_;; ++held) {
      for (; budget != budgets_.end() && budget->tokens == held; ++budget)
        budget->evicted = leaves.token;
      if (held == stack_.size()) break;
      Entry& further = stack_[held];
      if (further.below(leaves)) std::swap(further, leaves);
    }
    if (stack_.size() < largest_) stack_.push_back(leaves);
  }
  std::uint64_t token_sum = 0;
  auto budget = budgets_.begin();
  for (std::uint32_t held = 0; held < stack_.size();) {
    token_sum += stack_[held++].token;
    for (; budget != budgets_.end() && budget->tokens == held; ++budget)
      budget->token_sum = token_sum;
  }
  for (; budget != budgets_.end(); ++budget) budget->token_sum = token_sum;
}

BudgetStack::Entry BudgetStack::exchange(std::uint32_t i, Entry newcomer) {
  Entry* lowest = protects(newcomer.token, i) ? nullptr : &newcomer;
  for (std::uint32_t at = 0; at < smallest_; ++at) {
    Entry& entry = stack_[at];
    if (!protects(entry.token, i) && (lowest == nullptr || entry.below(*lowest))) lowest = &entry;
  }
  if (lowest == nullptr) throw std::logic_error("a stack whose smallest set protects all it holds");
  const Entry leaves = *lowest;
  *lowest = newcomer;
  return leaves;
}

void BudgetStack::measure(std::uint32_t i, const RowView& row, Budget& budget) const {
  const bool sees_all = i <= budget.tokens;
  if (budget.divides && !(budget.visible_sum > 0)) ++budget.zero_mass_rows;
  budget.samples.begin(i);
  if (!budget.samples.measured()) return;
  if (sees_all) {
    budget.samples.add_whole_row(row);
  } else {
    budget.samples.add_row(row, budget.visible_sum, {});
  }
  const std::uint32_t before = std::min(i, budget.tokens);
  const bool left = budget.evicted && *budget.evicted != i;
  budget.samples.add_set(i, std::min(i + 1, budget.tokens), budget.token_sum, before + 1,
                         before == 0 ? 0 : (left ? 1.0 : 0.0) / before);
}

std::vector<std::uint32_t> BudgetStack::kept(std::size_t place, std::uint32_t i) const {
  const std::uint32_t held = std::min(budgets_[place].tokens, i + 1);
  std::vector<std::uint32_t> tokens;
  for (std::size_t at = 0; at < held; ++at) tokens.push_back(stack_[at].token);
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

}  // namespace kvreplay
