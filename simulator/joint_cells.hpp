// Which cells of a plan are replayed together.
#pragma once

#include <cstddef>
#include <vector>

#include "simulator/plan.hpp"

namespace kvreplay {

/// Numbers of cells of the plan, ascending, each cell once.
struct JointCells {
  std::vector<std::size_t> single;               ///< each is a Cell
  std::vector<std::size_t> lanes;                ///< of BudgetLanes
  std::vector<std::vector<std::size_t>> stacks;  ///< each a BudgetStack's
};

JointCells joint_cells(const ReplayPlan& plan);

}  // namespace kvreplay
