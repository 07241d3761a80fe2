// What `kvreplay simulate` says of a replay: what will run, resolved, and what came out.
#pragma once

#include <string>
#include <string_view>

#include "simulator/plan.hpp"
#include "simulator/replay.hpp"
#include "traces/trace.hpp"

namespace kvreplay::commands {

void print_plan(const TraceInfo& info, const ReplayPlan& plan, unsigned threads);

/// What deal_budgets() dealt out, a line for each policy and budget.
void print_dealt(const ReplayPlan& plan);

/// One metric over all layers and heads, policies by budgets, to so many decimals.
void print_table(const ReplayPlan& plan, const ReplayOutcome& outcome, std::string_view metric,
                 const std::string& title, int decimals = 4,
                 double Summary::*statistic = &Summary::mean);

/// Whether all of a plan was replayed.
bool whole(const ReplayPlan& plan, const ReplayOutcome& outcome);

/// "12 of 270 heads are done: layer 0, heads 0-2 of layer 1".
std::string done_so_far(const ReplayPlan& plan, const ReplayOutcome& outcome);

/// What averages are over: "the replayed layers and heads", "the 12 of 270 heads that are done".
std::string replayed_heads(const ReplayPlan& plan, const ReplayOutcome& outcome);

void print_zero_mass_rows(const ReplayPlan& plan, const ReplayOutcome& outcome);

}  // namespace kvreplay::commands
