#include "simulator/plan.hpp"

#include <algorithm>
#include <stdexcept>

#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

/// Positions of the wanted model indices among the recorded ones, ascending.
std::vector<std::uint32_t> positions(const std::vector<std::uint32_t>& recorded,
                                     const std::optional<std::vector<std::uint32_t>>& wanted,
                                     std::string_view what, std::string_view trace) {
  std::vector<std::uint32_t> found;
  if (!wanted) {
    for (std::uint32_t i = 0; i < recorded.size(); ++i) found.push_back(i);
    return found;
  }
  for (const std::uint32_t index : *wanted) {
    const auto at = std::find(recorded.begin(), recorded.end(), index);
    if (at == recorded.end()) {
      throw std::invalid_argument(std::string(trace) + " does not hold " + std::string(what) + " " +
                                  std::to_string(index) + " (it holds " + index_ranges(recorded) +
                                  ")");
    }
    found.push_back(static_cast<std::uint32_t>(at - recorded.begin()));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

/// What heads decide together they cannot decide without some of them.
void check_whole(const std::vector<UnitPlan>& units, const TraceInfo& info, std::string_view trace,
                 Scope scope) {
  const bool groups = scope == Scope::group;
  const std::uint32_t needed = groups ? info.group_size() : info.model_heads;
  for (const auto& unit : units) {
    if (unit.heads.size() == needed) continue;
    throw std::invalid_argument(
        std::string(trace) + ": --scope " + std::string(name(scope)) + " needs all " +
        std::to_string(needed) + " heads of a " + (groups ? "KV group" : "layer") + ", and of " +
        (groups ? "group " + std::to_string(unit.index) : "layer " + std::to_string(unit.layer)) +
        " there are only heads " + index_ranges(unit.head_names) + "; take " +
        (groups ? "whole groups" : "all heads") + " or --scope head");
  }
}

std::vector<UnitPlan> plan_units(const TraceInfo& info, std::string_view trace,
                                 const ReplayRequest& request) {
  const auto layers = positions(info.layers, request.layers, "layer", trace);
  const auto heads = positions(info.heads, request.heads, "head", trace);
  std::vector<UnitPlan> units;
  for (const auto layer : layers) {
    const auto first_of_layer = units.size();
    for (const auto head : heads) {
      const std::uint32_t name = info.heads[head];
      std::uint32_t index = 0;
      if (request.scope == Scope::head) index = name;
      if (request.scope == Scope::group) index = name / info.group_size();
      if (units.size() == first_of_layer || units.back().index != index) {
        units.push_back(
            {.layer = info.layers[layer], .index = index, .heads = {}, .head_names = {}});
      }
      units.back().heads.push_back({layer, head});
      units.back().head_names.push_back(name);
    }
  }
  if (request.scope != Scope::head) check_whole(units, info, trace, request.scope);
  return units;
}

Traits traits_of(const PolicyRequest& policy, const Setting& setting) {
  if (const auto* make = std::get_if<CacheFactory>(&policy.entry->make)) {
    return (*make)(policy.arguments, setting)->traits();
  }
  return std::get<ChoiceFactory>(policy.entry->make)(policy.arguments, setting)->traits();
}

void check_needs(const PolicyEntry& policy, std::string_view trace) {
  for (const Need need : policy.needs) {
    if (need != Need::rows) {
      throw std::invalid_argument("policy " + policy.name + " needs the " +
                                  std::string(name(need)) + " of the cache, which " +
                                  std::string(trace) +
                                  " does not hold: it stores attention rows only");
    }
  }
}

}  // namespace

std::string_view name(Steps steps) {
  return steps == Steps::active ? "active" : "all";
}

Steps parse_steps(std::string_view text) {
  for (const auto steps : {Steps::active, Steps::all}) {
    if (name(steps) == text) return steps;
  }
  throw std::invalid_argument("unknown steps " + in_quotes(text) + " (active, all)");
}

std::string_view name(Detail detail) {
  switch (detail) {
    case Detail::overall:
      return "overall";
    case Detail::layer:
      return "layer";
    case Detail::head:
      return "head";
  }
  throw std::logic_error("unknown detail");
}

Detail parse_detail(std::string_view text) {
  for (const auto detail : {Detail::overall, Detail::layer, Detail::head}) {
    if (name(detail) == text) return detail;
  }
  throw std::invalid_argument("unknown detail " + in_quotes(text) + " (overall, layer, head)");
}

std::uint64_t ReplayPlan::rows() const {
  std::uint64_t heads = 0;
  for (const auto& unit : units) heads += unit.heads.size();
  return heads * tokens;
}

ReplayPlan plan_replay(const TraceInfo& info, std::string_view trace,
                       const ReplayRequest& request) {
  ReplayPlan plan{.trace = std::string(trace),
                  .tokens = info.tokens,
                  .encoding = info.encoding,
                  .scope = request.scope,
                  .steps = request.steps,
                  .detail = request.detail,
                  .needed = request.needed,
                  .cells = {},
                  .units = plan_units(info, trace, request)};
  if (plan.tokens == 0) throw std::invalid_argument(plan.trace + " holds no rows");
  const auto budgets = resolve_budgets(request.budgets, info.tokens, trace);
  for (const auto& asked : request.policies) {
    check_needs(*asked.entry, trace);
    PolicyRequest policy = asked;
    const auto& parameters = policy.entry->parameters;
    const bool seeded = std::any_of(parameters.begin(), parameters.end(),
                                    [](const Parameter& one) { return one.name == "seed"; });
    if (seeded && !policy.arguments.has("seed")) {
      policy.arguments.set(policy.entry->name, parameters, "seed", std::to_string(request.seed));
    }
    for (const auto& budget : budgets) {
      const Traits traits = traits_of(policy, {.budget = budget.budget, .tokens = info.tokens});
      // What is asked for twice in the same words runs once; other words keep a line of their own,
      // even where they come to the same at this budget.
      const bool known = std::any_of(plan.cells.begin(), plan.cells.end(), [&](const auto& other) {
        return other.policy.text == policy.text &&
               other.budget.budget.tokens == budget.budget.tokens;
      });
      if (!known) plan.cells.push_back({policy, budget, traits});
    }
  }
  return plan;
}

std::uint32_t first_measured(const ReplayPlan& plan, const CellPlan& cell) {
  return plan.steps == Steps::all ? 0 : cell.budget.budget.tokens;
}

std::string full_name(const CellPlan& cell) {
  return cell.traits.parameters.empty() ? cell.name() : cell.name() + ":" + cell.traits.parameters;
}

}  // namespace kvreplay
