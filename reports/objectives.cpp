#include "reports/objectives.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;

/// "" where none is said.
std::string objective_of(const json& manifest) {
  const auto found = manifest.find("objective");
  return found != manifest.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string name_by_objective(std::string_view policy, const json& manifest) {
  const std::string objective = objective_of(manifest);
  std::string name(policy);
  const bool found_for_it = policy == "optimum" || policy == "recoverable";
  return found_for_it && !objective.empty() && objective != "mass" ? name + " of " + objective
                                                                   : name;
}

std::map<std::string, std::string> needed_rules(const json& manifest) {
  std::map<std::string, std::string> rules;
  const auto needed = manifest.find("needed");
  if (needed != manifest.end() && needed->is_object()) {
    for (const auto& [metric, rule] : needed->items()) {
      if (rule.is_string()) rules[metric] = rule.get<std::string>();
    }
  }
  // "misses:top:16" counts by the rule "top:16" in the metric "misses_top".
  const std::string objective = objective_of(manifest);
  if (const auto colon = objective.find(':'); colon != std::string::npos) {
    const std::string rule = objective.substr(colon + 1);
    rules[objective.substr(0, colon) + "_" + rule.substr(0, rule.find(':'))] = rule;
  }
  return rules;
}

}  // namespace kvreplay
