// Which budgets of a replay are printed, where it has more than a screen is wide.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "simulator/plan.hpp"

namespace kvreplay::commands {

/// Tokens and texts of all budgets of a plan, ascending.
std::map<std::uint32_t, std::string> all_budgets(const ReplayPlan& plan);

/// Of budgets by tokens, all up to 24; of more the first, the last and some between, each about as
/// many times the one before.
std::map<std::uint32_t, std::string> shown_of(const std::map<std::uint32_t, std::string>& all);
std::map<std::uint32_t, std::string> shown_budgets(const ReplayPlan& plan);

}  // namespace kvreplay::commands
