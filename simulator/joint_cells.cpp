#include "simulator/joint_cells.hpp"

#include <algorithm>

#include "simulator/budget_lanes.hpp"
#include "simulator/budget_stack.hpp"

namespace kvreplay {
namespace {

constexpr std::size_t kFewestOfStack = 8;
constexpr std::size_t kMostLanes = 64;
constexpr std::size_t kTokensPerLane = 32;  // what a stack of them takes for a row, one lane does

/// A stack goes through all tokens up to its largest budget one by one, whatever the number of
/// budgets: so many lanes, or cells by themselves, are as fast.
bool stack_is_faster(const ReplayPlan& plan, const std::vector<std::size_t>& cells) {
  if (cells.size() < kFewestOfStack) return false;
  return !BudgetLanes::serve(plan, plan.cells[cells.front()]) ||
         cells.size() >= std::min(kMostLanes, plan.tokens / kTokensPerLane);
}

}  // namespace

JointCells joint_cells(const ReplayPlan& plan) {
  JointCells joint;
  std::vector<std::size_t> left;
  for (std::size_t cell = 0; cell < plan.cells.size(); ++cell) {
    if (!BudgetStack::serves(plan, plan.cells[cell])) {
      left.push_back(cell);
      continue;
    }
    const auto stack =
        std::find_if(joint.stacks.begin(), joint.stacks.end(), [&](const auto& cells) {
          return BudgetStack::together(plan.cells[cells.front()], plan.cells[cell]);
        });
    if (stack != joint.stacks.end()) {
      stack->push_back(cell);
    } else {
      joint.stacks.push_back({cell});
    }
  }
  for (const auto& stack : joint.stacks) {
    if (!stack_is_faster(plan, stack)) left.insert(left.end(), stack.begin(), stack.end());
  }
  std::erase_if(joint.stacks, [&](const auto& stack) { return !stack_is_faster(plan, stack); });
  std::sort(left.begin(), left.end());
  for (const std::size_t cell : left) {
    (BudgetLanes::serve(plan, plan.cells[cell]) ? joint.lanes : joint.single).push_back(cell);
  }
  return joint;
}

}  // namespace kvreplay
