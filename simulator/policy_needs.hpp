// Whether a trace and a scope give a policy what it needs.
#pragma once

#include "simulator/plan.hpp"

namespace kvreplay {

/// Throws std::invalid_argument, which says how to get it, where they do not.
void check_needs(const PolicyRequest& policy, const ReplayPlan& plan, const TraceInfo& info);

}  // namespace kvreplay
