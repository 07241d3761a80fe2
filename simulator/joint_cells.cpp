#include "simulator/joint_cells.hpp"

#include <algorithm>

#include "simulator/budget_lanes.hpp"
#include "simulator/budget_stack.hpp"

namespace kvreplay {
namespace {

// A stack holds all tokens up to its largest budget, whatever the number of budgets.
constexpr std::size_t kFewestOfStack = 8;

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
    if (stack.size() < kFewestOfStack) left.insert(left.end(), stack.begin(), stack.end());
  }
  std::erase_if(joint.stacks, [](const auto& stack) { return stack.size() < kFewestOfStack; });
  std::sort(left.begin(), left.end());
  for (const std::size_t cell : left) {
    (BudgetLanes::serve(plan, plan.cells[cell]) ? joint.lanes : joint.single).push_back(cell);
  }
  return joint;
}

}  // namespace kvreplay
