// Which policies of a report lose least at a budget, and which cannot be compared there.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvreplay {

/// Adds `unranked` and `best` to a group of report_data() that has series, budgets, samples and
/// values.
void rank(nlohmann::json& shown);

/// Who loses least where, and who is left out of that, in sentences.
std::vector<std::string> ranking_sentences(const nlohmann::json& shown);

}  // namespace kvreplay
