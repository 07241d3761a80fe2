#include "simulator/plan.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <stdexcept>

#include "policies/names.hpp"
#include "simulator/policy_needs.hpp"

namespace kvreplay {
namespace {

/// What an entry costs that is computed by itself, in entries of a row that is computed whole.
constexpr std::uint64_t kVisibleCost = 2;

const Names<Steps> steps_names = {
    {Steps::active, "active"}, {Steps::decoded, "decoded"}, {Steps::all, "all"}};
const Names<Match> match_names = {{Match::budget, "budget"}, {Match::visible, "visible"}};
const Names<Detail> detail_names = {
    {Detail::overall, "overall"}, {Detail::layer, "layer"}, {Detail::head, "head"}};

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
  const auto refuse = [&](const std::string& needed, const std::string& there,
                          const std::string& take) {
    throw std::invalid_argument(std::string(trace) + ": --scope " + std::string(name(scope)) +
                                " needs " + needed + ", and there are only " + there + "; take " +
                                take + " or --scope head");
  };
  const std::string all_heads = "all " + std::to_string(info.model_heads) + " heads of a layer";
  for (const auto& unit : units) {
    const std::string heads = "heads " + index_ranges(unit.head_names);
    switch (scope) {
      case Scope::head:
        break;
      case Scope::group:
        if (unit.heads.size() < info.group_size()) {
          refuse("all " + std::to_string(info.group_size()) + " heads of a KV group",
                 heads + " of group " + std::to_string(unit.index), "whole groups");
        }
        break;
      case Scope::layer:
        if (unit.heads.size() < info.model_heads) {
          refuse(all_heads, heads + " of layer " + std::to_string(unit.layer), "all heads");
        }
        break;
      case Scope::all:
        if (unit.heads.size() < std::size_t{info.model_heads} * info.model_layers) {
          refuse("all " + std::to_string(info.model_heads) + " heads of all " +
                     std::to_string(info.model_layers) + " layers",
                 std::to_string(unit.heads.size()) + " heads in all", "all layers and heads");
        }
        break;
    }
  }
}

std::vector<UnitPlan> plan_units(const TraceInfo& info, std::string_view trace,
                                 const ReplayRequest& request) {
  const auto layers = positions(info.layers, request.layers, "layer", trace);
  const auto heads = positions(info.heads, request.heads, "head", trace);
  std::vector<UnitPlan> units;
  for (const auto layer : layers) {
    const auto first_of_layer = request.scope == Scope::all ? 0 : units.size();
    for (const auto head : heads) {
      const std::uint32_t name = info.heads[head];
      std::uint32_t index = 0;
      if (request.scope == Scope::head) index = name;
      if (request.scope == Scope::group) index = name / info.group_size();
      if (units.size() == first_of_layer || units.back().index != index) {
        const std::uint32_t model_layer = request.scope == Scope::all ? 0 : info.layers[layer];
        units.push_back({model_layer, index, {}, {}, {}});
      }
      units.back().heads.push_back({layer, head});
      units.back().head_names.push_back(name);
      units.back().layer_names.push_back(info.layers[layer]);
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

/// A union is of whole groups.
void check_unions(const ReplayPlan& plan) {
  if (plan.scope != Scope::head) {
    throw std::invalid_argument("--union compares the kept sets of single heads, and at --scope " +
                                std::string(name(plan.scope)) +
                                " heads share one; leave out --union or take --scope head");
  }
  const auto group = [&](const UnitPlan& unit) {
    return std::pair(unit.layer, unit.index / plan.group_size);
  };
  for (std::size_t first = 0; first < plan.units.size();) {
    std::size_t last = first;
    while (last < plan.units.size() && group(plan.units[last]) == group(plan.units[first])) ++last;
    if (last - first < plan.group_size) {
      throw std::invalid_argument(
          plan.trace + ": --union needs all " + std::to_string(plan.group_size) +
          " heads of a KV group, and there are only " + std::to_string(last - first) +
          " of group " + std::to_string(group(plan.units[first]).second) + " of layer " +
          std::to_string(plan.units[first].layer) + "; take whole groups or leave out --union");
    }
    first = last;
  }
}

/// Whether a policy may hold every token at any budget: then a budget does not bound it.
bool no_budget_bounds(const ReplayPlan& plan, CellPlan cell) {
  cell.given = {1};
  try {
    const Setting last = setting_of(plan, cell, plan.units.size() - 1);
    return traits_of(cell.policy, last).capacity >= plan.tokens;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

/// Finds what the policy of `cell` is given for its budget, and its traits then: those of the last
/// unit, as a policy may leave the first layers alone.
void resolve(const ReplayPlan& plan, CellPlan& cell) {
  const std::uint32_t budget = cell.budget.budget.tokens;
  const auto traits = [&] {
    return traits_of(cell.policy, setting_of(plan, cell, plan.units.size() - 1));
  };
  cell.given = {budget};
  cell.traits = traits();
  const auto sees = [&] { return std::min(most_visible(cell.traits), plan.tokens); };
  if (plan.match == Match::budget || sees() <= budget || no_budget_bounds(plan, cell)) return;
  // What is shown need not fall with what is given (of 100 tokens fixed shows 31 at 30, but 30 at
  // 31): a bisection could pass the largest setting by.
  std::string fewer;  // why less cannot be given
  while (fewer.empty() && --cell.given.tokens > 0) {
    try {
      cell.traits = traits();
    } catch (const std::invalid_argument& error) {
      fewer = " (with " + std::to_string(cell.given.tokens) + ", " + error.what() + ")";
    }
    if (fewer.empty() && sees() <= budget) return;
  }
  // The traits are those of the least that can be given: a budget of all that it shows will do.
  const std::uint32_t least = cell.given.tokens + 1;
  throw std::invalid_argument(
      "--match visible: policy " + cell.policy.text + " cannot be held to " +
      std::to_string(budget) + (budget == 1 ? " visible token: " : " visible tokens: ") +
      (least == budget ? "it" : "even a budget of " + std::to_string(least)) +
      " shows a query up to " + std::to_string(sees()) + "; take a budget of " +
      std::to_string(sees()) + " or more" + fewer);
}

/// What units share cannot be dealt out without some of them.
void check_sharers(const PolicyEntry& policy, const ReplayPlan& plan, const TraceInfo& info) {
  if (!policy.allotment) return;
  std::map<std::uint32_t, std::vector<std::uint32_t>> heads;  // by layer
  for (const auto& unit : plan.units) {
    auto& names = heads[unit.layer];
    names.insert(names.end(), unit.head_names.begin(), unit.head_names.end());
  }
  const auto refuse = [&](const std::string& among, const std::string& there,
                          const std::string& take) {
    throw std::invalid_argument(plan.trace + ": policy " + policy.name + " looks at all " + among +
                                " before it deals budgets out, and " + "there are only " + there +
                                "; take " + take);
  };
  for (const auto& [layer, names] : heads) {
    if (names.size() < info.model_heads) {
      refuse(std::to_string(info.model_heads) + " heads of a layer",
             "heads " + index_ranges(names) + " of layer " + std::to_string(layer), "all heads");
    }
  }
  if (policy.allotment->among == Allotment::Among::all && heads.size() < info.model_layers) {
    refuse(std::to_string(info.model_layers) + " layers", std::to_string(heads.size()) + " layers",
           "all layers");
  }
}

void check_prompt(const ReplayPlan& plan, const Traits& traits, std::string_view policy) {
  if (!traits.whole_prompt && plan.prefill == Prefill::stream) return;
  if (plan.prompt_tokens > 0 && plan.prompt_tokens < plan.tokens) return;
  const std::string lacks = plan.prompt_tokens == 0 ? "no prompt" : "no token behind its prompt";
  std::string advice = "; give the length of the prompt, --prompt-len 1";
  if (plan.tokens > 2) advice += " to " + std::to_string(plan.tokens - 1);
  throw std::invalid_argument(
      (traits.whole_prompt ? "policy " + std::string(policy) + " evicts after"
                           : std::string("--prefill full evicts after")) +
      " the whole prompt, and " + plan.trace + " has " +
      (plan.tokens == 1 ? "one token only; take a longer trace" : lacks + advice));
}

/// Whether a policy reads rows before the first of them is replayed.
bool looks_ahead(const PolicyEntry& policy) {
  const bool surveys = policy.allotment && policy.allotment->survey != nullptr;
  return surveys || std::find(policy.needs.begin(), policy.needs.end(), Need::future_rows) !=
                        policy.needs.end();
}

/// Row entries of one head that the queries of a cell see.
std::uint64_t visible_entries(const ReplayPlan& plan, const CellPlan& cell) {
  const std::uint32_t full = full_rows(plan, cell.traits);
  const std::uint64_t most = most_visible(cell.traits);
  std::uint64_t entries = 0;
  for (std::uint64_t i = plan.sampling.first; i < plan.tokens; i += plan.sampling.every) {
    entries += i < full ? i + 1 : std::min(i + 1, most);
  }
  return entries;
}

/// Whether rows are known from factors, no part of the plan looks at what queries do not see, and
/// the cells see so little that it costs less than whole rows, which they share.
bool sees_little(const ReplayPlan& plan, const TraceInfo& info) {
  if (info.encoding != Encoding::factors || !plan.needed.empty() || plan.values) return false;
  std::uint64_t visible = 0;
  for (const CellPlan& cell : plan.cells) {
    if (looks_ahead(*cell.policy.entry) || cell.traits.whole_row != WholeRow::none) return false;
    visible += visible_entries(plan, cell);
  }
  // Whole rows are computed 64 at a time, however many of them the trace holds.
  const std::uint64_t whole = std::uint64_t{plan.tokens} * (plan.tokens + 1) / 2 /
                              std::max<std::uint64_t>(plan.sampling.every / RowLayout::kBlock, 1);
  return visible * kVisibleCost < whole;
}

/// Whether a policy is shown more than the row that it chooses for.
bool observes_rows(const CellPlan& cell) {
  return cell.traits.rows != RowForm::none || cell.traits.whole_row == WholeRow::later_choices ||
         looks_ahead(*cell.policy.entry);
}

void check_rows_held(const ReplayPlan& plan) {
  if (plan.sampling.all()) return;
  std::vector<std::string> observers;
  for (const auto& cell : plan.cells) {
    if (!observes_rows(cell)) continue;
    if (observers.empty() || observers.back() != cell.policy.text) {
      observers.push_back(cell.policy.text);
    }
  }
  if (observers.empty()) return;
  std::string names;
  for (const auto& name : observers) {
    names += (names.empty() ? "" : &name == &observers.back() ? " and " : ", ") + name;
  }
  throw std::invalid_argument(
      plan.trace + " holds only " + in_words(plan.sampling) + ", and " +
      (observers.size() == 1 ? "policy " + names + " observes" : "policies " + names + " observe") +
      " every row; leave " + (observers.size() == 1 ? "it" : "them") +
      " out (local, sinks, strided and topk-row are some that observe none) or take a trace of all "
      "rows");
}

/// A replay that measures nothing is refused before it takes its time.
void check_measured(const ReplayPlan& plan) {
  const std::string n = std::to_string(plan.tokens);
  if (plan.steps == Steps::decoded && plan.prompt_tokens >= plan.tokens) {
    const std::string most = std::to_string(plan.tokens - 1);
    throw std::invalid_argument(
        "--steps decoded: no token of " + plan.trace + " is decoded, as its prompt has all " + n +
        (plan.tokens == 1 ? "; take --steps all"
                          : "; give the length of the prompt, --prompt-len 1" +
                                (plan.tokens == 2 ? "" : " to " + most) + ", or --steps all"));
  }
  const std::uint32_t last = plan.sampling.next(plan.tokens) - plan.sampling.every;
  const bool measured = std::any_of(plan.cells.begin(), plan.cells.end(), [&](const auto& cell) {
    return first_measured(plan, cell) <= last || loses_nothing(plan, cell);
  });
  if (measured) return;
  if (!plan.sampling.all()) {
    throw std::invalid_argument(plan.trace + " holds only " + in_words(plan.sampling) + " to row " +
                                std::to_string(last) +
                                ", none of which would be measured; take a smaller budget or "
                                "--steps all");
  }
  throw std::invalid_argument(
      plan.trace + ": no step would be measured, as at a budget of all " + n +
      " tokens none is active, and " +
      (plan.cells.size() == 1 ? "the policy does not hold" : "none of the policies holds") +
      " them all; take a budget below " + n + " or --steps all");
}

}  // namespace

std::string_view name(Steps steps) {
  return name_in(steps_names, steps);
}
std::string_view name(Match match) {
  return name_in(match_names, match);
}
std::string_view name(Detail detail) {
  return name_in(detail_names, detail);
}

Steps parse_steps(std::string_view text) {
  return parse_in(steps_names, text, "steps");
}
Match parse_match(std::string_view text) {
  return parse_in(match_names, text, "match");
}
Detail parse_detail(std::string_view text) {
  return parse_in(detail_names, text, "detail");
}

std::uint64_t ReplayPlan::rows() const {
  std::uint64_t heads = 0;
  for (const auto& unit : units) heads += unit.heads.size();
  return heads * tokens;
}

std::uint64_t ReplayPlan::row_entries() const {
  const std::uint64_t held = sampling.before(tokens);
  return rows() / tokens * (held * (sampling.first + 1) + held * (held - 1) / 2 * sampling.every);
}

ReplayPlan plan_replay(const TraceInfo& info, std::string_view trace,
                       const ReplayRequest& request) {
  ReplayPlan plan{.trace = std::string(trace),
                  .tokens = info.tokens,
                  .prompt_tokens = request.prompt_tokens.value_or(info.prompt_tokens),
                  .model_layers = info.model_layers,
                  .pieces = info.pieces,
                  .encoding = info.encoding,
                  .sampling = info.sampling,
                  .scope = request.scope,
                  .pooling = request.pooling,
                  .prefill = request.prefill,
                  .match = request.match,
                  .steps = request.steps,
                  // One kept set for all has no parts to break it down into.
                  .detail = request.scope == Scope::all ? Detail::overall : request.detail,
                  .values = info.values,
                  .unions = request.unions,
                  .cost = request.cost,
                  .bins = std::min(request.bins, info.tokens),
                  .group_size = info.group_size(),
                  .head_size = info.head_size,
                  .needed = request.needed,
                  .cells = {},
                  .units = plan_units(info, trace, request)};
  if (plan.tokens == 0) throw std::invalid_argument(plan.trace + " holds no rows");
  if (plan.prompt_tokens > plan.tokens) {
    throw std::invalid_argument("--prompt-len " + std::to_string(plan.prompt_tokens) +
                                " is above the " + std::to_string(plan.tokens) +
                                (plan.tokens == 1 ? " token of " : " tokens of ") + plan.trace);
  }
  if (plan.unions) check_unions(plan);
  auto budgets = resolve_budgets(request.budgets, info.tokens, plan.prompt_tokens, trace);
  std::sort(budgets.begin(), budgets.end(), [](const auto& one, const auto& other) {
    return one.budget.tokens < other.budget.tokens;
  });
  std::set<std::string> asked_before;
  for (const auto& asked : request.policies) {
    // What is asked for twice in the same words runs once; other words keep a line of their own,
    // even where they come to the same at some budget.
    if (!asked_before.insert(asked.text).second) continue;
    check_needs(asked, plan, info);
    plan.vectors = plan.vectors || need_vectors(needs_of(*asked.entry, asked.arguments));
    check_sharers(*asked.entry, plan, info);
    PolicyRequest policy = asked;
    const auto& parameters = policy.entry->parameters;
    const bool seeded = std::any_of(parameters.begin(), parameters.end(),
                                    [](const Parameter& one) { return one.name == "seed"; });
    if (seeded && !policy.arguments.has("seed")) {
      policy.arguments.set(policy.entry->name, parameters, "seed", std::to_string(request.seed));
    }
    const std::size_t before = plan.cells.size();
    std::exception_ptr too_small;
    for (const auto& budget : budgets) {
      CellPlan cell{policy, budget, {}};
      try {
        resolve(plan, cell);
      } catch (const std::invalid_argument&) {
        if (!budget.of_all) throw;
        too_small = std::current_exception();
        continue;
      }
      check_prompt(plan, cell.traits, policy.entry->name);
      plan.cells.push_back(std::move(cell));
    }
    if (plan.cells.size() == before && too_small) std::rethrow_exception(too_small);
  }
  check_rows_held(plan);
  check_measured(plan);
  plan.only_visible = sees_little(plan, info);
  return plan;
}

bool some_need(const ReplayPlan& plan, Need need) {
  return std::any_of(plan.cells.begin(), plan.cells.end(), [&](const CellPlan& cell) {
    const auto needs = needs_of(*cell.policy.entry, cell.policy.arguments);
    return std::find(needs.begin(), needs.end(), need) != needs.end();
  });
}

Setting setting_of(const ReplayPlan& plan, const CellPlan& cell, std::size_t unit,
                   std::span<const double> column_sums, const HeadVectors* vectors) {
  const UnitPlan& place = plan.units[unit];
  Setting setting{.budget = cell.given,
                  .tokens = plan.tokens,
                  .prompt_tokens = plan.prompt_tokens,
                  .prefill = plan.prefill,
                  .layer = place.layer,
                  .unit = place.index,
                  .model_layers = plan.model_layers,
                  .heads = static_cast<std::uint32_t>(place.heads.size()),
                  .head_size = plan.head_size,
                  .column_sums = column_sums,
                  .pieces = plan.pieces,
                  .vectors = vectors};
  if (!cell.unit_tokens.empty()) setting.dealt = Budget{cell.unit_tokens[unit]};
  return setting;
}

std::uint32_t full_rows(const ReplayPlan& plan, const Traits& traits) {
  return traits.whole_prompt || plan.prefill == Prefill::full ? plan.prompt_tokens : 0;
}

bool holds_all(const ReplayPlan& plan, const Traits& traits) {
  return traits.capacity >= plan.tokens && !traits.leaves_room;
}

bool loses_nothing(const ReplayPlan& plan, const CellPlan& cell) {
  return plan.steps != Steps::all && cell.budget.budget.tokens >= plan.tokens &&
         holds_all(plan, cell.traits);
}

std::uint32_t first_measured(const ReplayPlan& plan, const CellPlan& cell) {
  const std::uint32_t active = std::max(cell.budget.budget.tokens, full_rows(plan, cell.traits));
  switch (plan.steps) {
    case Steps::active:
      return active;
    case Steps::decoded:
      return std::max(active, plan.prompt_tokens);
    case Steps::all:
      return 0;
  }
  throw std::logic_error("unknown steps");
}

std::string full_name(const CellPlan& cell) {
  return cell.traits.parameters.empty() ? cell.name() : cell.name() + ":" + cell.traits.parameters;
}

}  // namespace kvreplay
