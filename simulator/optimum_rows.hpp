// An optimum as rows of results.
#pragma once

#include "simulator/optimum.hpp"
#include "simulator/results.hpp"

namespace kvreplay {

/// Appends the mean loss of the policies "optimum" and "recoverable": over all, then by layer, then
/// by head, as far as the plan goes into detail; the metric is the objective's.
void add_rows(const OptimumPlan& plan, const OptimumOutcome& outcome, Results& results);

}  // namespace kvreplay
