// Adaptive policies give layers or heads different shares of one budget, after a look at the
// prompt.
#pragma once

#include "simulator/plan.hpp"
#include "traces/row_source.hpp"
#include "traces/run_control.hpp"

namespace kvreplay {

/// Fills CellPlan::unit_tokens of every cell whose policy has an Allotment; reads the prompt's rows
/// once for all that need them, which it reports as "prompt rows". Throws InputError for rows that
/// are not probabilities, std::logic_error where a policy deals out more than it has,
/// Interrupted where stopped.
void deal_budgets(ReplayPlan& plan, const RowSource& source, unsigned threads,
                  const RunControl& control);

}  // namespace kvreplay
