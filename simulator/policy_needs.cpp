#include "simulator/policy_needs.hpp"

#include <algorithm>
#include <stdexcept>

#include "simulator/unit_vectors.hpp"

namespace kvreplay {
namespace {

/// What a trace lacks of a need, and how to capture one that has it; empty: nothing.
std::string lacking(Need need, const TraceInfo& info) {
  const bool factors = info.encoding == Encoding::factors;
  switch (need) {
    case Need::rows:
    case Need::future_rows:
      return {};
    case Need::pieces:
      return info.pieces.empty() ? "does not hold" : "";
    case Need::queries:
      if (factors && !info.sampling.all()) return "holds for " + in_words(info.sampling) + " only";
      return factors ? "" : "does not hold; capture it with --encoding factors";
    case Need::keys:
      return factors ? "" : "does not hold; capture it with --encoding factors";
    case Need::values:
      return info.values ? "" : "does not hold; capture it with --values";
    case Need::key_norms:
      if (factors || info.norms) return {};
      return "does not hold; capture it with --encoding factors or --norms";
    case Need::value_norms:
      if (info.values || info.norms) return {};
      return "does not hold; capture it with --values or --norms";
    case Need::rotation:
      if (rotation_of(info)) return {};
      return "does not describe: its rope_type is \"" + info.rope_type + "\"";
  }
  throw std::logic_error("unknown need");
}

}  // namespace

void check_needs(const PolicyRequest& request, const ReplayPlan& plan, const TraceInfo& info) {
  const PolicyEntry& policy = *request.entry;
  const auto needs = needs_of(policy, request.arguments);
  for (const Need need : needs) {
    const auto lacks = lacking(need, info);
    if (lacks.empty()) continue;
    const bool in_cache = need == Need::queries || need == Need::keys || need == Need::values;
    throw std::invalid_argument("policy " + policy.name + " needs the " + std::string(name(need)) +
                                (in_cache ? " of the cache" : "") + ", which " + plan.trace + " " +
                                lacks);
  }
  const bool of_one_kv_head = plan.scope == Scope::head || plan.scope == Scope::group;
  if (need_vectors(needs) && !of_one_kv_head && policy.scopes.empty()) {
    throw std::logic_error("policy " + policy.name + " needs vectors of one KV head at any scope");
  }
  if (!policy.scopes.empty() &&
      std::find(policy.scopes.begin(), policy.scopes.end(), plan.scope) == policy.scopes.end()) {
    std::string scopes;
    for (const auto scope : policy.scopes) {
      scopes += (scopes.empty() ? "--scope " : " or ") + std::string(name(scope));
    }
    throw std::invalid_argument("policy " + policy.name + " is defined for " + scopes +
                                " only, not for --scope " + std::string(name(plan.scope)) +
                                (plan.scope == Scope::head ? ", the default" : ""));
  }
}

}  // namespace kvreplay
