#include <cstring>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "policies/parts.hpp"
#include "policies/split.hpp"
#include "reports/commands/command.hpp"
#include "reports/commands/policy_libraries.hpp"
#include "reports/policy_sources.hpp"
#include "reports/text_table.hpp"
#include "simulator/json_text.hpp"
#include "traces/quoted.hpp"

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

/// What can be listed: a policy or a part.
struct Entry {
  std::string title;
  std::string summary;
  std::string also_called;
  std::string note;
  const std::vector<Parameter>& parameters;
  std::string needs;
};

std::string needs_text(const std::vector<Need>& needs, const std::vector<Scope>& scopes) {
  return "needs " + names(needs) + (scopes.empty() ? "" : "; only --scope " + names(scopes));
}

Entry entry_of(const PolicyEntry& policy) {
  std::string others;
  for (const auto& other : policy.also_called) others += (others.empty() ? "" : ", ") + other;
  return {policy.name,
          printable(policy.summary),
          others.empty() ? "" : "also called " + others,
          printable(policy.note),
          policy.parameters,
          needs_text(needs_of(policy, {}), policy.scopes)};
}

Entry entry_of(const Part& part) {
  return {part.name + (part.ranked() ? "  (ranked)" : "  (protected)"),
          part.meaning,
          "",
          "",
          part.parameters,
          part.needs.empty() ? "" : needs_text(part.needs, scopes_for(part.needs))};
}

constexpr const char* kIndent = "    ";

/// Lines of at most 100 columns, the first from `start` on and the others four columns further in.
std::string hanging(const std::string& start, const std::string& text) {
  return wrapped(start + kIndent, text).erase(start.size(), std::strlen(kIndent));
}

void print_parameter(const Parameter& parameter) {
  std::cout << hanging(kIndent, printable(parameter.name) + "  " + printable(parameter.meaning))
            << wrapped("        ", parameter.range() + "; default: " + parameter.default_words);
}

void print_in_full(const Entry& entry) {
  std::cout << entry.title << "\n" << wrapped(kIndent, entry.summary);
  if (!entry.also_called.empty()) std::cout << wrapped(kIndent, entry.also_called);
  if (!entry.note.empty()) std::cout << wrapped(kIndent, entry.note);
  for (const auto& parameter : entry.parameters) print_parameter(parameter);
  if (!entry.needs.empty()) std::cout << wrapped(kIndent, entry.needs);
}

/// The others of its kind: one name means several algorithms to different readers.
void print_source(const PolicyEntry& policy) {
  const auto [source, heading, siblings] = policy_source(policy.name);
  if (source.empty()) return;
  std::cout << wrapped(kIndent, "source: " + source);
  std::string others;
  for (const auto& name : siblings) others += (others.empty() ? "" : ", ") + name;
  if (!others.empty()) {
    std::cout << wrapped(kIndent, "see also (" + heading + "): " + others +
                                      "; policies/README.md says how they differ");
  }
}

/// The parts of a composition, as often as its text names them.
std::vector<const Part*> parts_of(std::string_view composition) {
  std::vector<const Part*> parts;
  for (const auto piece : split(composition, '+')) {
    const auto part = registered_parts().find(split(piece, ':')[0]);
    if (part != registered_parts().end()) parts.push_back(&part->second);
  }
  return parts;
}

void print_composition(const PolicyEntry& composition) {
  std::cout << composition.name << "\n    " << composition.summary << "\n";
  for (const auto* part : parts_of(composition.name)) {
    std::cout << hanging(
        kIndent, (part->ranked() ? "ranked: " : "protected: ") + part->name + ", " + part->meaning);
    for (const auto& parameter : part->parameters) print_parameter(parameter);
  }
  print_parameter(evict_parameter());
  std::cout << "    " << needs_text(composition.needs, composition.scopes) << "\n";
}

/// A line that says what it is, and what it takes as "rows=raw, recent (half of the budget)".
void print_in_short(const Entry& entry) {
  std::cout << hanging("", entry.title + "  " + entry.summary);
  std::string takes;
  for (const auto& parameter : entry.parameters) {
    const auto& otherwise = parameter.default_words;
    const bool one_word = otherwise.find(' ') == std::string::npos;
    takes += (takes.empty() ? "" : ", ") + printable(parameter.name) +
             (one_word ? "=" + otherwise : " (" + otherwise + ")");
  }
  if (!entry.needs.empty()) takes += (takes.empty() ? "" : "; ") + entry.needs;
  if (!entry.also_called.empty()) takes += "; " + entry.also_called;
  if (!takes.empty()) std::cout << wrapped(kIndent, takes);
}

void print_all(bool in_full) {
  const auto print = in_full ? print_in_full : print_in_short;
  for (const auto& [name, policy] : registered_policies()) {
    print(entry_of(policy));
    if (in_full) print_source(policy);
  }
  std::cout << "\nParts, to be joined by + as in sinks:4+recent:0.5+heavy:rows=raw\n\n";
  for (const bool ranked : {false, true}) {
    for (const auto& [name, part] : registered_parts()) {
      if (part.ranked() == ranked) print(entry_of(part));
    }
  }
  std::cout << "evict=after|before  (of the whole, as in recent:0.5+heavy+evict=before)\n"
            << wrapped("    ", evict_parameter().meaning);
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
          {"also_called", policy.also_called},
          {"note", policy.note},
          {"source", policy_source(policy.name).source},
          {"parameters", to_json(policy.parameters)},
          {"needs", to_json(needs_of(policy, {}))},
          {"scopes", names(policy.scopes)}};
}

nlohmann::ordered_json to_json(const Part& part) {
  return {{"kind", part.ranked() ? "ranked part" : "protected part"},
          {"name", part.name},
          {"summary", part.meaning},
          {"note", ""},
          {"parameters", to_json(part.parameters)},
          {"needs", to_json(part.needs)},
          {"scopes", names(scopes_for(part.needs))}};
}

nlohmann::ordered_json composition_to_json(const PolicyEntry& composition) {
  auto json = to_json(composition);
  json["kind"] = "composition";
  json["parameters"] = to_json(std::vector<Parameter>{evict_parameter()});
  json["parts"] = nlohmann::ordered_json::array();
  for (const auto* part : parts_of(composition.name)) json["parts"].push_back(to_json(*part));
  return json;
}

/// What one name means: a policy, a part (both where both have it), or a composition.
struct Asked {
  std::shared_ptr<const PolicyEntry> policy;
  const Part* part = nullptr;
};

/// Throws std::invalid_argument for what is none of them.
std::vector<Asked> asked_for(const std::vector<std::string>& texts) {
  std::vector<Asked> asked;
  for (const auto& text : texts) {
    for (const auto name : split(text, ',')) {
      const auto part = registered_parts().find(name);
      const bool is_part = part != registered_parts().end();
      if (!is_part || registered_policies().contains(name)) {
        asked.push_back({parse_policies(name)[0].entry});
      }
      if (is_part) asked.push_back({nullptr, &part->second});
    }
  }
  return asked;
}

void run(const po::variables_map& options, const RunControl& /*control*/) {
  load_policy_libraries(options);
  const bool all = options.count("name") == 0;
  const bool json = options["json"].as<bool>();
  if (!all && options["all"].as<bool>()) {
    throw std::invalid_argument("--all explains all policies; give it or names, not both");
  }
  if (all && !json) {
    print_all(options["all"].as<bool>());
    if (!options["all"].as<bool>()) {
      std::cout << "\n`kvreplay policies NAME...` explains some of them, --all all of them.\n";
    }
    return;
  }
  auto list = nlohmann::ordered_json::array();
  if (all) {
    for (const auto& [name, policy] : registered_policies()) list.push_back(to_json(policy));
    for (const auto& [name, part] : registered_parts()) list.push_back(to_json(part));
  } else {
    for (const auto& [policy, part] : asked_for(options["name"].as<std::vector<std::string>>())) {
      const bool composed = policy && is_composition(policy->name);
      if (json) {
        list.push_back(part != nullptr ? to_json(*part)
                       : composed      ? composition_to_json(*policy)
                                       : to_json(*policy));
      } else if (composed) {
        print_composition(*policy);
      } else {
        print_in_full(part != nullptr ? entry_of(*part) : entry_of(*policy));
        if (policy) print_source(*policy);
      }
    }
  }
  if (!json) return;
  std::cout << json_text(list, 2) << "\n";
}

}  // namespace

Command policies_command() {
  Command command;
  command.name = "policies";
  command.summary = "list the eviction policies with their parameters";
  command.usage = "[NAME...] [--all] [--json]";
  command.details =
      R"(A policy is given to simulate by name with its parameters, name[:key=value]..., or as parts of
the kept set joined by +, each part[:tokens][:key=value]...; commas stand between policies. Tokens
are a count or a share of the budget (0.5, 50%); one part may have none and takes what the others
leave. Protected parts never lose a token; of all other tokens the ranked part says which one
leaves, and without one it is the oldest. Room that protected tokens do not fill, or not yet, is
used for ranked ones. +evict=before evicts before the query attends. Results carry the policy as it
was typed.

Without NAME all policies are listed, and behind them the parts, with their parameters, defaults and
needs. With NAME, of a policy, a part or a composition of parts, it is explained: its
parameters, its source, and how it differs from what was published; --all explains all.

  kvreplay policies h2o tova heavy
  kvreplay simulate T.h5 --policy local,h2o:heavy=0.25:rows=raw --budget 20%
  kvreplay simulate T.h5 --policy sinks:4+recent:0.5+heavy,strided:0.5+recent --budget 20%)";
  auto add = command.options.add_options();
  add("name", po::value<std::vector<std::string>>(),
      "only these policies, parts or compositions of parts");
  add("all", po::bool_switch(), "explain all of them");
  add("json", po::bool_switch(), "print one JSON array, with everything");
  add_policy_library_option(command);
  command.positional.add("name", -1);
  command.run = run;
  return command;
}

}  // namespace kvreplay::commands
