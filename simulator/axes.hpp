// In what eviction policies of the same name differ between papers and programs, said of each run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "simulator/plan.hpp"

namespace kvreplay {

/// What holds where own_axes() and a policy's note do not say otherwise, as (question, answer).
std::vector<std::pair<std::string, std::string>> common_axes(Match match);

/// What a policy at one budget does in its own way: the form of the rows that it is shown, whether
/// the newcomer may leave at once, and how many tokens a row sees once the cache is full.
std::vector<std::string> own_axes(const ReplayPlan& plan, const CellPlan& cell);

/// How it differs from what was published under its name: its note. Empty where it does not.
std::string note_on(const ReplayPlan& plan, const PolicyEntry& policy);

}  // namespace kvreplay
