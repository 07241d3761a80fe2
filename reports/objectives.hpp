// What the optima in results were found for, and which needed sets that takes.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvreplay {

/// What an optimum is called in a report: by its objective where that is not "mass", as the
/// evictions of one objective are not those of another. Other policies keep their names.
std::string name_by_objective(std::string_view policy, const nlohmann::json& manifest);

/// The rule of each metric that counts needed tokens, "miss_top" -> "top:16": of the needed sets in
/// a manifest and of its objective.
std::map<std::string, std::string> needed_rules(const nlohmann::json& manifest);

}  // namespace kvreplay
