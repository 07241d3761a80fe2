// Which budgets of a replay are printed, where it has more than a screen is wide.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "reports/shown_budgets.hpp"
#include "simulator/plan.hpp"

namespace kvreplay::commands {

/// Tokens and texts of all budgets of a plan, ascending.
std::map<std::uint32_t, std::string> all_budgets(const ReplayPlan& plan);

/// Those of them that are printed.
std::map<std::uint32_t, std::string> shown_budgets(const ReplayPlan& plan);

}  // namespace kvreplay::commands
