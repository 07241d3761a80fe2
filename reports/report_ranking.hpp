// Which policies of a report lose least at a budget, and which cannot be compared there.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvreplay {

/// Adds `unranked` and `best` to a group of report_data() that has series, budgets, samples and
/// values.
void rank(nlohmann::json& shown);

/// How near the policies come to the optimum where that is known, who loses least where, and who is
/// left out of that, in sentences; of the budgets at which policies were replayed.
std::vector<std::string> ranking_sentences(const nlohmann::json& group);

}  // namespace kvreplay
