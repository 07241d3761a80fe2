#include "simulator/joint_cells.hpp"

#include <algorithm>

#include "simulator/budget_lanes.hpp"
#include "simulator/budget_stack.hpp"

namespace kvreplay {
namespace {

constexpr std::size_t kFewestOfStack = 8;
constexpr std::size_t kMostLanes = 64;
constexpr std::size_t kTokensPerLane = 32;  // a stack takes as long for so many of a row's tokens

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
  const auto slower =
      std::stable_partition(joint.stacks.begin(), joint.stacks.end(),
                            [&](const auto& stack) { return stack_is_faster(plan, stack); });
  for (auto stack = slower; stack != joint.stacks.end(); ++stack) {
    left.insert(left.end(), stack->begin(), stack->end());
  }
  joint.stacks.erase(slower, joint.stacks.end());
  std::sort(left.begin(), left.end());
  for (const std::size_t cell : left) {
    (BudgetLanes::serve(plan, plan.cells[cell]) ? joint.lanes : joint.single).push_back(cell);
  }
  return joint;
}

}  // namespace kvreplay
