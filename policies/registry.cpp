#include "policies/registry.hpp"

#include <algorithm>
#include <stdexcept>

#include "policies/names.hpp"
#include "policies/nearest_name.hpp"
#include "policies/parts.hpp"
#include "policies/split.hpp"

namespace kvreplay {
namespace {

Registry& registry() {
  static Registry policies;  // made by the first policy that registers itself
  return policies;
}

/// Letters and digits, as small ones.
std::string bare(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') text += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) text += c;
  }
  return text;
}

const PolicyEntry& find_policy(std::string_view name) {
  const auto found = registry().find(name);
  if (found != registry().end()) return found->second;
  if (name.find('=') != std::string_view::npos) {
    throw std::invalid_argument("unknown policy \"" + std::string(name) +
                                "\": commas lie between policies, a policy's parameters follow "
                                "colons, as in h2o:heavy=0.25:recent=32");
  }
  std::vector<std::string> names;
  std::string list;
  for (const auto& [known, entry] : registry()) {
    names.push_back(known);
    names.insert(names.end(), entry.also_called.begin(), entry.also_called.end());
    list += (list.empty() ? "" : ", ") + known;
  }
  const auto nearest = policy_called(nearest_name(name, names));
  throw std::invalid_argument("unknown policy \"" + std::string(name) + "\"" +
                              (nearest.empty() ? " (policies: " + list + ")"
                                               : ", did you mean \"" + nearest + "\"? " +
                                                     "(`kvreplay policies` lists all)"));
}

PolicyRequest parse_policy(std::string_view text) {
  if (is_composition(text)) return parse_composition(text);
  const auto pieces = split(text, ':');
  if (pieces[0].empty()) {
    throw std::invalid_argument(
        "a policy without a name in --policy (write name[:key=value]... or parts joined by +, "
        "commas between policies)");
  }
  PolicyRequest request;
  request.text = text;
  // The registry outlives every request.
  request.entry = {std::shared_ptr<void>(), &find_policy(pieces[0])};
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const auto equals = pieces[i].find('=');
    if (equals == std::string_view::npos) {
      throw std::invalid_argument("policy " + request.entry->name + ": \"" +
                                  std::string(pieces[i]) + "\" is not of the form key=value");
    }
    request.arguments.set(request.entry->name, request.entry->parameters,
                          pieces[i].substr(0, equals), pieces[i].substr(equals + 1));
  }
  return request;
}

const Names<Scope> scope_names = {
    {Scope::head, "head"}, {Scope::group, "group"}, {Scope::layer, "layer"}, {Scope::all, "all"}};
const Names<Pooling> pooling_names = {
    {Pooling::mean, "mean"}, {Pooling::sum, "sum"}, {Pooling::max, "max"}};
const Names<Prefill> prefill_names = {{Prefill::stream, "stream"}, {Prefill::full, "full"}};

}  // namespace

Registration::Registration(PolicyEntry entry) {
  const std::string name = entry.name;
  if (!registry().emplace(name, std::move(entry)).second) {
    throw std::logic_error("two policies are called " + name);
  }
}

const Registry& registered_policies() {
  return registry();
}

std::string policy_called(std::string_view name) {
  const std::string wanted = bare(name);
  if (wanted.empty()) return {};
  for (const auto& [known, entry] : registry()) {
    if (bare(known) == wanted) return known;
  }
  for (const auto& [known, entry] : registry()) {
    for (const auto& other : entry.also_called) {
      if (bare(other) == wanted) return known;
    }
  }
  return {};
}

std::vector<Need> needs_of(const PolicyEntry& policy, const Arguments& arguments) {
  std::vector<Need> needs = policy.needs;
  if (policy.also_needs != nullptr) {
    const auto more = policy.also_needs(arguments);
    needs.insert(needs.end(), more.begin(), more.end());
  }
  return needs;
}

bool need_vectors(const std::vector<Need>& needs) {
  return std::any_of(needs.begin(), needs.end(), [](Need need) {
    return need != Need::rows && need != Need::future_rows && need != Need::pieces;
  });
}

std::vector<Scope> scopes_for(const std::vector<Need>& needs) {
  if (need_vectors(needs)) return {Scope::head, Scope::group};
  return {};
}

std::vector<PolicyRequest> parse_policies(std::string_view text) {
  std::vector<PolicyRequest> requests;
  for (const auto piece : split(text, ',')) requests.push_back(parse_policy(piece));
  return requests;
}

std::string_view name(Need need) {
  switch (need) {
    case Need::rows:
      return "rows";
    case Need::future_rows:
      return "rows of the future";
    case Need::pieces:
      return "texts of the tokens";
    case Need::queries:
      return "queries";
    case Need::keys:
      return "keys";
    case Need::values:
      return "values";
    case Need::key_norms:
      return "norms of the keys";
    case Need::value_norms:
      return "norms of the values";
    case Need::rotation:
      return "position embedding";
  }
  throw std::logic_error("unknown need");
}

std::string_view name(Scope scope) {
  return name_in(scope_names, scope);
}
std::string_view name(Pooling pooling) {
  return name_in(pooling_names, pooling);
}
std::string_view name(Prefill prefill) {
  return name_in(prefill_names, prefill);
}

Scope parse_scope(std::string_view text) {
  return parse_in(scope_names, text, "scope");
}
Pooling parse_pooling(std::string_view text) {
  return parse_in(pooling_names, text, "pooling");
}
Prefill parse_prefill(std::string_view text) {
  return parse_in(prefill_names, text, "prefill");
}

}  // namespace kvreplay
