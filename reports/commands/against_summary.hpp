// What `kvreplay simulate --against optimum` says of the optimum.
#pragma once

#include "simulator/against.hpp"

namespace kvreplay::commands {

/// What will be sought.
void print_optima(const Against& against, unsigned threads);

/// Policies by budgets: the share of the optimum and the policy loss, with the optimum's own loss.
void print_against(const ReplayPlan& plan, const ReplayOutcome& outcome, const Against& against);

}  // namespace kvreplay::commands
