#include <iostream>
#include <nlohmann/json.hpp>

#include "policies/parts.hpp"
#include "reports/commands/command.hpp"
#include "reports/commands/policy_libraries.hpp"

namespace kvreplay::commands {
namespace {

std::string names(const std::vector<Need>& needs) {
  std::string text;
  for (const auto need : needs) text += (text.empty() ? "" : ", ") + std::string(name(need));
  return text.empty() ? "nothing" : text;
}

std::string names(const std::vector<Scope>& scopes) {
  std::string text;
  for (const auto scope : scopes) text += (text.empty() ? "" : ", ") + std::string(name(scope));
  return text.empty() ? "any" : text;
}

void print_parameters(const std::vector<Parameter>& parameters) {
  for (const auto& parameter : parameters) {
    std::cout << "    " << parameter.name << "  " << parameter.meaning << "\n        "
              << parameter.range() << "; default: " << parameter.default_words << "\n";
  }
}

void print_text(const PolicyEntry& policy) {
  std::cout << policy.name << "\n    " << policy.summary << "\n";
  if (!policy.note.empty()) std::cout << "    " << policy.note << "\n";
  print_parameters(policy.parameters);
  std::cout << "    needs " << names(policy.needs);
  if (!policy.scopes.empty()) std::cout << "; only --scope " << names(policy.scopes);
  std::cout << "\n";
}

void print_parts() {
  std::cout << "\nParts, to be joined by + as in sinks:4+recent:0.5+heavy:rows=raw\n\n";
  for (const bool ranked : {false, true}) {
    for (const auto& [name, part] : registered_parts()) {
      if (part.ranked() != ranked) continue;
      std::cout << name << (ranked ? "  (ranked)" : "  (protected)") << "\n    " << part.meaning
                << "\n";
      print_parameters(part.parameters);
    }
  }
  std::cout << "evict=after|before  (of the whole, as in recent:0.5+heavy+evict=before)\n    "
            << evict_parameter().meaning << "\n";
}

nlohmann::ordered_json to_json(const std::vector<Parameter>& parameters) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& parameter : parameters) {
    list.push_back({{"name", parameter.name},
                    {"meaning", parameter.meaning},
                    {"range", parameter.range()},
                    {"default", parameter.default_words}});
  }
  return list;
}

nlohmann::ordered_json to_json(const std::vector<Need>& needs) {
  auto list = nlohmann::ordered_json::array();
  for (const auto need : needs) list.push_back(name(need));
  return list;
}

nlohmann::ordered_json to_json(const PolicyEntry& policy) {
  return {{"kind", "policy"},
          {"name", policy.name},
          {"summary", policy.summary},
          {"note", policy.note},
          {"parameters", to_json(policy.parameters)},
          {"needs", to_json(policy.needs)},
          {"scopes", names(policy.scopes)}};
}

nlohmann::ordered_json to_json(const Part& part) {
  return {{"kind", part.ranked() ? "ranked part" : "protected part"},
          {"name", part.name},
          {"summary", part.meaning},
          {"note", ""},
          {"parameters", to_json(part.parameters)},
          {"needs", to_json(part.needs)},
          {"scopes", "any"}};
}

}  // namespace

Command policies_command() {
  Command command;
  command.name = "policies";
  command.summary = "list the eviction policies with their parameters";
  command.usage = "[NAME] [--json]";
  command.details =
      R"(A policy is given to simulate by name with its parameters, name[:key=value]..., or as parts of
the kept set joined by +, each part[:tokens][:key=value]...; commas stand between policies. Tokens
are a count or a share of the budget (0.5, 50%); one part may have none and takes what the others
leave. Protected parts never lose a token; of all other tokens the ranked part says which one
leaves, and without one it is the oldest. Room that protected tokens do not fill, or not yet, is
used for ranked ones. +evict=before evicts before the query attends. Results carry the policy as it
was typed. Without NAME the parts are listed behind the policies.

  kvreplay simulate T.h5 --policy local,h2o:heavy=0.25:rows=raw --budget 20%
  kvreplay simulate T.h5 --policy sinks:4+recent:0.5+heavy,strided:0.5+recent --budget 20%)";
  auto add = command.options.add_options();
  add("name", po::value<std::string>(), "only this policy, or composition of parts");
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
      if (asked.empty()) {
        for (const auto& [name, part] : registered_parts()) list.push_back(to_json(part));
      }
      std::cout << list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
                << "\n";
      return;
    }
    for (const auto* policy : policies) print_text(*policy);
    if (asked.empty()) print_parts();
  };
  return command;
}

}  // namespace kvreplay::commands
