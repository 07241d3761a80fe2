#include <iostream>
#include <nlohmann/json.hpp>

#include "policies/registry.hpp"
#include "reports/commands/command.hpp"
#include "reports/commands/policy_libraries.hpp"

namespace kvreplay::commands {
namespace {

std::string names(const std::vector<Need>& needs) {
  std::string text;
  for (const auto need : needs) text += (text.empty() ? "" : ", ") + std::string(name(need));
  return text.empty() ? "nothing" : text;
}

void print_text(const PolicyEntry& policy) {
  std::cout << policy.name << "\n    " << policy.summary << "\n";
  if (!policy.note.empty()) std::cout << "    " << policy.note << "\n";
  for (const auto& parameter : policy.parameters) {
    std::cout << "    " << parameter.name << "  " << parameter.meaning << "\n        "
              << parameter.range() << "; default: " << parameter.default_words << "\n";
  }
  std::cout << "    needs " << names(policy.needs) << "\n";
}

nlohmann::ordered_json to_json(const PolicyEntry& policy) {
  nlohmann::ordered_json json = {{"name", policy.name},
                                 {"summary", policy.summary},
                                 {"note", policy.note},
                                 {"parameters", nlohmann::ordered_json::array()},
                                 {"needs", nlohmann::ordered_json::array()}};
  for (const auto& parameter : policy.parameters) {
    json["parameters"].push_back({{"name", parameter.name},
                                  {"meaning", parameter.meaning},
                                  {"range", parameter.range()},
                                  {"default", parameter.default_words}});
  }
  for (const auto need : policy.needs) json["needs"].push_back(name(need));
  return json;
}

}  // namespace

Command policies_command() {
  Command command;
  command.name = "policies";
  command.summary = "list the eviction policies with their parameters";
  command.usage = "[NAME] [--json]";
  command.details =
      "A policy is given to simulate as name[:key=value]..., with commas between policies:\n\n"
      "  kvreplay simulate T.h5 --policy local,h2o:heavy=0.25:rows=raw --budget 20%";
  auto add = command.options.add_options();
  add("name", po::value<std::string>(), "only this policy");
  add("json", po::bool_switch(), "print one JSON array");
  add_policy_library_option(command);
  command.positional.add("name", 1);
  command.run = [](const po::variables_map& options, const RunControl&) {
    load_policy_libraries(options);
    std::vector<const PolicyEntry*> policies;
    std::vector<PolicyRequest> asked;
    if (options.count("name") != 0) {
      asked = parse_policies(options["name"].as<std::string>());
      for (const auto& one : asked) policies.push_back(one.entry.get());
    } else {
      for (const auto& [name, policy] : registered_policies()) policies.push_back(&policy);
    }
    if (options["json"].as<bool>()) {
      nlohmann::ordered_json list = nlohmann::ordered_json::array();
      for (const auto* policy : policies) list.push_back(to_json(*policy));
      std::cout << list.dump(2) << "\n";
      return;
    }
    for (const auto* policy : policies) print_text(*policy);
  };
  return command;
}

}  // namespace kvreplay::commands
