#include "reports/report_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "reports/bounded_cells.hpp"
#include "reports/comparable.hpp"
#include "reports/coverage.hpp"
#include "reports/objectives.hpp"
#include "reports/report_ranking.hpp"
#include "reports/settings.hpp"
#include "reports/shown_budgets.hpp"
#include "reports/text_table.hpp"
#include "traces/errors.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;

struct Number {
  double value = 0;
  std::size_t source = 0;   ///< which file it was read from first
  std::uint64_t steps = 0;  ///< how many it is the mean of
};

// (layer, unit) -> mean; the unit is 0 at scope layer
using Places = std::map<std::pair<std::uint32_t, std::uint32_t>, Number>;

/// One policy with one set of parameters at one budget.
struct Cell {
  std::string parameters;
  std::optional<std::uint64_t> samples;
  // metric -> statistic -> value over all layers and heads
  std::map<std::string, std::map<std::string, Number>> values;
  Places losses;
  Places policy_losses;       // of those, the policy's own part
  Places working_set_losses;  // and the rest
  std::string unbounded;      // why no optimum of another file bounds it

  Places* places_of(std::string_view metric) {
    if (metric == "mass_loss") return &losses;
    if (metric == "policy_loss") return &policy_losses;
    if (metric == "working_set_loss") return &working_set_losses;
    return nullptr;
  }
};

struct Group {
  std::string trace;
  std::string scope;
  std::set<std::size_t> sources;
  std::set<std::uint32_t> layers;
  std::set<std::uint32_t> units;
  std::map<std::uint32_t, std::set<std::string>> budgets;  // tokens -> as asked for
  std::vector<std::string> policies;                       // by name, in order of appearance
  std::map<std::string, std::string> bounds;               // by name, of those that are one
  std::set<std::uint32_t> replayed;  // tokens of what is no optimum, which has all budgets at once
  // (policy, tokens) -> its variants, in order of appearance
  std::map<std::pair<std::string, std::uint32_t>, std::vector<Cell>> cells;
};

/// The trace as the manifests know it; zero and empty where they do not.
struct Trace {
  std::string model;
  std::uint64_t tokens = 0;
  std::uint64_t prompt_tokens = 0;
  std::size_t layers = 0;
  std::size_t heads = 0;
  std::uint64_t model_heads = 0;
  std::uint64_t kv_heads = 0;
  RowSampling sampling;
};

std::uint64_t unsigned_or_zero(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::string text_or_empty(const json& object, const std::string& key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::size_t length_or_zero(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? found->size() : 0;
}

json parsed_manifest(const ReportSource& source) {
  json manifest = json::parse(source.results.manifest_json, nullptr, false);
  if (!manifest.is_object()) {
    throw InputError(source.name +
                     ": its manifest is not a JSON object; replay again with simulate");
  }
  return manifest;
}

void read_traces(const json& manifest, std::map<std::string, Trace>& traces) {
  const auto list = manifest.find("traces");
  if (list == manifest.end() || !list->is_array()) return;
  for (const auto& entry : *list) {
    if (!entry.is_object()) continue;
    Trace trace;
    trace.model = text_or_empty(entry, "model");
    trace.tokens = unsigned_or_zero(entry, "tokens");
    trace.prompt_tokens = unsigned_or_zero(entry, "prompt_tokens");
    trace.layers = length_or_zero(entry, "layers");
    trace.heads = length_or_zero(entry, "heads");
    trace.model_heads = unsigned_or_zero(entry, "model_heads");
    trace.kv_heads = unsigned_or_zero(entry, "kv_heads");
    trace.sampling = sampling_of(entry);
    traces.emplace(text_or_empty(entry, "file"), trace);
  }
}

/// The rule of each metric of needed tokens. Two of one metric cannot share a chart.
json needed_sets(std::span<const ReportSource> sources, std::span<const json> manifests) {
  json needed = json::object();
  std::map<std::string, std::size_t> origins;
  for (std::size_t source = 0; source < manifests.size(); ++source) {
    for (const auto& [metric, rule] : needed_rules(manifests[source])) {
      const auto [origin, fresh] = origins.emplace(metric, source);
      if (fresh) needed[metric] = rule;
      if (needed[metric] == rule) continue;
      throw std::invalid_argument(sources[source].name + ": " + metric + " is of " + rule +
                                  ", and in " + sources[origin->second].name + " of " +
                                  text_or_empty(needed, metric) +
                                  "; each needs a report of its own");
    }
  }
  return needed;
}

std::set<std::string> trace_names(const json& manifest) {
  std::set<std::string> names;
  const auto list = manifest.find("traces");
  if (list == manifest.end() || !list->is_array()) return names;
  for (const auto& entry : *list) {
    if (entry.is_object()) names.insert(text_or_empty(entry, "file"));
  }
  return names;
}

/// Results of one trace are ranked together: they have to be of the same trace, measured alike,
/// also where no two of their numbers contradict each other.
void check_alike(std::span<const ReportSource> sources, std::span<const json> manifests) {
  for (std::size_t source = 1; source < sources.size(); ++source) {
    for (const auto& trace : trace_names(manifests[source])) {
      for (std::size_t other = 0; other < source; ++other) {
        if (!trace_names(manifests[other]).contains(trace)) continue;
        const auto refuse = [&](const std::string& why) {
          std::string text = sources[source].name;
          text.append(": ").append(trace).append(" is not replayed as in ");
          text.append(sources[other].name).append(": ").append(why);
          throw std::invalid_argument(text + "; each needs a report of its own");
        };
        if (const auto fact = differing_fact(manifests[source], manifests[other], trace);
            !fact.empty()) {
          refuse(fact);
        }
        if (const auto measure = differing_measure(manifests[source], manifests[other]);
            !measure.empty()) {
          refuse(measure);
        }
      }
    }
  }
}

/// Puts rows into groups and cells. Rows of one cell mostly come one after the other, so the last
/// cell is remembered.
class Collector {
 public:
  /// `manifests` by source.
  Collector(std::span<const ReportSource> sources, std::span<const json> manifests)
      : sources_(sources), manifests_(manifests), bounded_(manifests.begin(), manifests.end()) {}

  void add(std::size_t source, const ResultRow& row) {
    const bool overall = !row.layer && !row.head;
    const bool in_map = row.layer && (row.head || row.scope == "layer") &&
                        row.metric.ends_with("_loss") && row.statistic == "mean";
    if (!overall && !in_map) return;
    Cell& cell = find(source, row);
    if (row.steps == 0 || !std::isfinite(row.value)) return;  // no step counts: nothing to show
    if (in_map) {
      Places* places = cell.places_of(row.metric);
      if (places == nullptr) return;
      const auto unit = row.head.value_or(0);
      group_->layers.insert(*row.layer);
      if (row.head) group_->units.insert(unit);
      put(*places, std::pair(*row.layer, unit), source, row);
    } else {
      const std::string metric(row.metric);
      put(cell.values[metric], std::string(row.statistic), source, row);
      if (!cell.samples || (row.metric == "mass_loss" && row.statistic == "mean")) {
        cell.samples = row.steps;
      }
    }
  }

  /// Those of policies that attend the prompt in full are known as what their losses are held to.
  void add_optima_of_prompts() {
    for (auto& group : groups_) add_optimum_of_prompts(group);
  }

  const std::vector<Group>& groups() const { return groups_; }

 private:
  static void add_optimum_of_prompts(Group& group) {
    const std::string name = "optimum, prompt in full";
    std::map<std::uint32_t, Cell> cells;
    for (const auto& [key, variants] : group.cells) {
      const auto streaming = group.cells.find({"optimum", key.second});
      if (streaming == group.cells.end()) continue;
      const Number* other = mean_of(streaming->second.front(), "mass_loss");
      for (const auto& cell : variants) {
        const Number* least = mean_of(cell, "working_set_loss");
        if (least == nullptr || other == nullptr) continue;
        if (least->value == other->value && least->steps == other->steps) continue;
        Cell& added = cells[key.second];
        added.samples = least->steps;
        added.values["mass_loss"]["mean"] = *least;
        added.losses = cell.working_set_losses;
      }
    }
    if (cells.empty()) return;
    group.policies.push_back(name);
    group.bounds[name] = "optimum";
    for (auto& [tokens, cell] : cells) group.cells[{name, tokens}].push_back(std::move(cell));
  }

  static const Number* mean_of(const Cell& cell, const std::string& metric) {
    const auto values = cell.values.find(metric);
    if (values == cell.values.end()) return nullptr;
    const auto mean = values->second.find("mean");
    return mean == values->second.end() ? nullptr : &mean->second;
  }

  template <typename Values, typename Key>
  void put(Values& values, Key&& key, std::size_t source, const ResultRow& row) {
    const auto [place, fresh] =
        values.emplace(std::forward<Key>(key), Number{row.value, source, row.steps});
    const Number& first = place->second;
    // Times differ from run to run: the first read stays.
    if (fresh || first.value == row.value || row.metric == "cost_ns") return;
    const std::string settings =
        differing_settings(manifests_[source], manifests_[first.source], row.trace);
    throw std::invalid_argument(
        sources_[source].name + ": " + std::string(row.statistic) + " of " +
        std::string(row.metric) + " of " + std::string(row.policy) + " at budget " +
        std::string(row.budget) + " on " + std::string(row.trace) + " differs from that in " +
        sources_[first.source].name + ", " +
        (settings.empty() ? "and the manifests do not say why (other traces of the same name?)"
                          : "as " + settings) +
        "; each needs a report of its own");
  }

  Cell& find(std::size_t source, const ResultRow& row) {
    const auto key = std::tuple(source, row.trace, row.scope, row.policy, row.parameters,
                                row.budget_tokens, row.budget);
    if (cell_ != nullptr && key == last_) return *cell_;
    last_ = key;
    group_ = &find_group(row);
    group_->sources.insert(source);
    group_->budgets[row.budget_tokens].emplace(row.budget);
    const std::string policy = name_by_objective(row.policy, manifests_[source]);
    if (const auto bound = bound_of(row.policy); !bound.empty()) group_->bounds[policy] = bound;
    if (row.policy != "optimum" && row.policy != "recoverable") {
      group_->replayed.insert(row.budget_tokens);
    }
    if (std::find(group_->policies.begin(), group_->policies.end(), policy) ==
        group_->policies.end()) {
      group_->policies.push_back(policy);
    }
    auto& variants = group_->cells[{policy, row.budget_tokens}];
    const auto same = std::find_if(variants.begin(), variants.end(), [&row](const Cell& cell) {
      return cell.parameters == row.parameters;
    });
    if (same == variants.end()) {
      cell_ = &variants.emplace_back();
      cell_->parameters = row.parameters;
      cell_->unbounded =
          bounded_[source].why_not(row.trace, row.policy, row.parameters, row.budget_tokens);
    } else {
      cell_ = &*same;
    }
    return *cell_;
  }

  Group& find_group(const ResultRow& row) {
    for (auto& group : groups_) {
      if (group.trace == row.trace && group.scope == row.scope) return group;
    }
    Group& group = groups_.emplace_back();
    group.trace = row.trace;
    group.scope = row.scope;
    return group;
  }

  std::span<const ReportSource> sources_;
  std::span<const json> manifests_;
  std::vector<BoundedCells> bounded_;  // by source
  std::vector<Group> groups_;
  Group* group_ = nullptr;
  Cell* cell_ = nullptr;
  std::tuple<std::size_t, std::string_view, std::string_view, std::string_view, std::string_view,
             std::uint32_t, std::string_view>
      last_;
};

/// One curve: a policy, and which of its variants.
struct Series {
  std::string policy;
  std::size_t variant = 0;
  std::string name;
};

const Cell* find_cell(const Group& group, const Series& series, std::uint32_t tokens) {
  const auto found = group.cells.find({series.policy, tokens});
  if (found == group.cells.end() || series.variant >= found->second.size()) return nullptr;
  return &found->second[series.variant];
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (from < text.size()) {
    const auto to = std::min(text.find(separator, from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

/// The key=value pairs that a variant has at every budget.
std::set<std::string> constant_parameters(const Group& group, const Series& series) {
  std::optional<std::set<std::string>> common;
  for (const auto& [tokens, asked] : group.budgets) {
    const Cell* cell = find_cell(group, series, tokens);
    if (cell == nullptr) continue;
    const auto parts = split(cell->parameters, ':');
    const std::set<std::string> here(parts.begin(), parts.end());
    if (!common) {
      common = here;
    } else {
      std::erase_if(*common, [&here](const std::string& part) { return !here.contains(part); });
    }
  }
  return common.value_or(std::set<std::string>());
}

void name_variants(const Group& group, std::span<Series> variants) {
  if (variants.size() == 1) {
    variants[0].name = variants[0].policy;
    return;
  }
  std::vector<std::set<std::string>> constants;
  for (const auto& series : variants) constants.push_back(constant_parameters(group, series));
  std::set<std::string> used;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    std::string name = variants[i].policy;
    for (const auto& part : constants[i]) {
      const bool shared = std::all_of(constants.begin(), constants.end(),
                                      [&part](const auto& other) { return other.contains(part); });
      if (!shared) name += ":" + part;
    }
    if (!used.insert(name).second) {
      name += " #" + std::to_string(i + 1);
      used.insert(name);
    }
    variants[i].name = name;
  }
}

std::vector<Series> series_of(const Group& group) {
  std::vector<Series> all;
  for (const auto& policy : group.policies) {
    std::size_t variants = 0;
    for (const auto& [tokens, asked] : group.budgets) {
      const auto found = group.cells.find({policy, tokens});
      if (found != group.cells.end()) variants = std::max(variants, found->second.size());
    }
    const auto first = all.size();
    for (std::size_t i = 0; i < variants; ++i) all.push_back({policy, i, ""});
    name_variants(group, std::span(all).subspan(first));
  }
  return all;
}

json bound_or_null(const Group& group, const std::string& policy) {
  const auto bound = group.bounds.find(policy);
  return bound == group.bounds.end() ? json() : json(bound->second);
}

/// "20%" or "20%prompt" where that was asked for and comes to as many tokens, of n or the prompt.
std::string share_of(const std::set<std::string>& asked, std::uint32_t tokens, std::uint64_t n,
                     std::uint64_t prompt) {
  for (const auto& text : asked) {
    char* end = nullptr;
    const double percent = std::strtod(text.c_str(), &end);
    const std::string unit = end;
    const std::uint64_t whole = unit == "%" ? n : unit == "%prompt" ? prompt : 0;
    if (end == text.c_str() || whole == 0) continue;
    const double exact = std::max(1.0, percent / 100.0 * static_cast<double>(whole));
    if (std::abs(std::floor(exact + 1e-9) - static_cast<double>(tokens)) < 0.5) return text;
  }
  return "";
}

/// Five digits are enough for a colour and a tooltip, and keep the page small.
double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return std::strtod(text, nullptr);
}

std::string scope_sentence(const std::string& scope) {
  if (scope == "head") return "one kept set per query head";
  if (scope == "group") return "one kept set per KV group";
  if (scope == "layer") return "one kept set per layer";
  return "scope " + scope;
}

std::string what_ran(const Group& group, const json& shown, const Trace& trace,
                     const Coverage& coverage) {
  std::size_t bounds = 0;
  for (const auto& series : shown["series"]) bounds += series["bound"].is_null() ? 0 : 1;
  const std::size_t policies = shown["series"].size() - bounds;
  const std::size_t budgets = shown["replayed"].size();
  std::string text;
  if (policies > 0) text = counted(policies, "policy", "policies");
  if (policies > 0 && budgets < group.budgets.size()) {
    text += " at " + counted(budgets, "budget");
  }
  if (bounds > 0) text += (policies > 0 ? " and " : "") + counted(bounds, "bound");
  text += " at " + counted(group.budgets.size(), "budget") + ", replayed on ";
  text += trace.model.empty() ? group.trace : trace.model + " (" + group.trace + ")";
  std::vector<std::string> facts;
  if (trace.tokens > 0) {
    std::string n = "n = " + counted(trace.tokens, "token");
    if (trace.prompt_tokens > 0 && trace.prompt_tokens < trace.tokens) {
      n += " (" + grouped(trace.prompt_tokens) + " of them prompt)";
    }
    facts.push_back(n);
  }
  const auto layers = trace.layers > 0 ? trace.layers : group.layers.size();
  const auto heads = trace.heads > 0 ? trace.heads : group.scope == "head" ? group.units.size() : 0;
  if (layers > 0) {
    facts.push_back(counted(layers, "layer") +
                    (heads > 0 ? " × " + counted(heads, "query head") : ""));
  }
  facts.push_back(scope_sentence(group.scope));
  if (!trace.sampling.all()) facts.push_back("measured at " + in_words(trace.sampling));
  if (coverage.partial) facts.push_back("interrupted: the numbers are over " + coverage.over);
  for (std::size_t i = 0; i < facts.size(); ++i) text += (i == 0 ? ": " : ", ") + facts[i];
  return text + ".";
}

/// Layer after layer; null where nothing is known of any.
json flat(const Group& group, const Places& places) {
  if (places.empty()) return nullptr;
  const std::set<std::uint32_t> units = group.units.empty() ? std::set{0U} : group.units;
  json values = json::array();
  for (const auto layer : group.layers) {
    for (const auto unit : units) {
      const auto found = places.find({layer, unit});
      values.push_back(found == places.end() ? json() : json(rounded(found->second.value)));
    }
  }
  return values;
}

/// What a policy loses beyond the optimum, as its file says or by that of another file.
Places policy_losses(const Group& group, const Cell& cell, std::uint32_t tokens) {
  if (!cell.policy_losses.empty() || !cell.unbounded.empty()) return cell.policy_losses;
  Places own;
  const auto optimum = group.cells.find({"optimum", tokens});
  if (optimum == group.cells.end()) return own;
  const Places& least = optimum->second.front().losses;
  for (const auto& [place, loss] : cell.losses) {
    const auto found = least.find(place);
    if (found == least.end() || found->second.steps != loss.steps) continue;
    own[place].value = loss.value - found->second.value;
  }
  return own;
}

/// Tables of budgets by series of flat maps.
json map_of(const Group& group, std::span<const Series> series,
            const std::set<std::uint32_t>& budgets) {
  if (group.layers.empty()) return nullptr;
  json values = json::array();
  json own_values = json::array();
  for (const auto& one : series) {
    const bool is_bound = group.bounds.contains(one.policy);
    json losses = json::array();
    json own_losses = json::array();
    for (const auto& [tokens, asked] : group.budgets) {
      const Cell* cell = budgets.contains(tokens) ? find_cell(group, one, tokens) : nullptr;
      losses.push_back(cell == nullptr ? json() : flat(group, cell->losses));
      own_losses.push_back(
          cell == nullptr || is_bound ? json() : flat(group, policy_losses(group, *cell, tokens)));
    }
    values.push_back(std::move(losses));
    own_values.push_back(std::move(own_losses));
  }
  return {{"layers", group.layers},
          {"units", group.units},
          {"values", std::move(values)},
          {"policy_loss", std::move(own_values)}};
}

/// Positions of budgets, ascending.
json positions(const Group& group, const std::set<std::uint32_t>& tokens) {
  json found = json::array();
  std::size_t position = 0;
  for (const auto& [budget, asked] : group.budgets) {
    if (tokens.contains(budget)) found.push_back(position);
    ++position;
  }
  return found;
}

std::set<std::uint32_t> listed(const std::set<std::uint32_t>& budgets) {
  std::map<std::uint32_t, std::string> all;
  for (const auto tokens : budgets) all.emplace(tokens, "");
  std::set<std::uint32_t> some;
  for (const auto& [tokens, text] : shown_of(all)) some.insert(tokens);
  return some;
}

/// By policy as it was asked for: how it differs from what was published under its name.
using Notes = std::map<std::string, std::string>;

void read_notes(const json& manifest, const Group& group, Notes& notes) {
  const auto cells = manifest.find("cells");
  if (text_or_empty(manifest, "scope") != group.scope) return;
  if (cells == manifest.end() || !cells->is_array()) return;
  for (const auto& cell : *cells) {
    if (!cell.is_object() || text_or_empty(cell, "trace") != group.trace) continue;
    notes[text_or_empty(cell, "policy")] = text_or_empty(cell, "note");
  }
}

json shown(const Group& group, const Trace& trace, const Coverage& coverage, const Notes& notes) {
  const auto series = series_of(group);
  // A run at 100 % tells n even without a manifest.
  std::uint64_t n = trace.tokens;
  for (const auto& [tokens, asked] : group.budgets) {
    if (n == 0 && asked.contains("100%")) n = tokens;
  }
  json out = {
      {"trace", group.trace}, {"scope", group.scope}, {"model", trace.model}, {"tokens", n}};
  out["over"] = coverage.over;
  out["partial"] = coverage.partial;
  out["series"] = json::array();
  for (const auto& one : series) {
    const auto note = notes.find(one.policy);
    out["series"].push_back({{"name", one.name},
                             {"policy", one.policy},
                             {"bound", bound_or_null(group, one.policy)},
                             {"note", note == notes.end() ? "" : note->second}});
  }
  out["budgets"] = json::array();
  std::map<std::string, std::set<std::string>> statistics;
  for (const auto& [tokens, asked] : group.budgets) {
    out["budgets"].push_back(
        {{"tokens", tokens}, {"share", share_of(asked, tokens, n, trace.prompt_tokens)}});
  }
  for (const auto& [key, variants] : group.cells) {
    for (const auto& cell : variants) {
      for (const auto& [metric, values] : cell.values) {
        for (const auto& [statistic, value] : values) statistics[metric].insert(statistic);
      }
    }
  }
  const auto table = [&](const auto& pick) {
    json rows = json::array();
    for (const auto& one : series) {
      json row = json::array();
      for (const auto& [tokens, asked] : group.budgets) {
        const Cell* cell = find_cell(group, one, tokens);
        row.push_back(cell == nullptr ? json() : pick(*cell));
      }
      rows.push_back(std::move(row));
    }
    return rows;
  };
  out["parameters"] = table([](const Cell& cell) { return json(cell.parameters); });
  out["samples"] =
      table([](const Cell& cell) { return cell.samples ? json(*cell.samples) : json(); });
  out["unbounded"] = table(
      [](const Cell& cell) { return cell.unbounded.empty() ? json() : json(cell.unbounded); });
  out["values"] = json::object();
  for (const auto& [metric, names] : statistics) {
    for (const auto& statistic : names) {
      out["values"][metric][statistic] = table([&m = metric, &s = statistic](const Cell& cell) {
        const auto values = cell.values.find(m);
        if (values == cell.values.end()) return json();
        const auto value = values->second.find(s);
        return value == values->second.end() ? json() : json(value->second.value);
      });
    }
  }
  // An optimum is known at every budget; tables list those at which policies are set against it.
  std::set<std::uint32_t> budgets = group.replayed;
  if (budgets.empty()) {
    for (const auto& [tokens, asked] : group.budgets) budgets.insert(tokens);
  }
  out["replayed"] = positions(group, budgets);
  out["listed"] = positions(group, listed(budgets));
  rank(out);
  out["map"] = map_of(group, series, group.replayed.empty() ? listed(budgets) : budgets);
  out["headline"] = json::array({what_ran(group, out, trace, coverage)});
  for (auto& sentence : ranking_sentences(out)) out["headline"].push_back(std::move(sentence));
  return out;
}

}  // namespace

json report_data(std::span<const ReportSource> sources) {
  std::map<std::string, Trace> traces;
  std::vector<json> manifests;
  for (const auto& source : sources) manifests.push_back(parsed_manifest(source));
  Collector collector(sources, manifests);
  for (std::size_t source = 0; source < sources.size(); ++source) {
    read_traces(manifests[source], traces);
    for (const auto& row : sources[source].results.rows) collector.add(source, row);
  }
  check_alike(sources, manifests);
  collector.add_optima_of_prompts();
  json groups = json::array();
  for (const auto& group : collector.groups()) {
    std::vector<Coverage> coverages;
    Notes notes;
    for (const auto source : group.sources) {
      read_notes(manifests[source], group, notes);
      coverages.push_back(
          coverage_of(manifests[source], sources[source].results.partial, group.trace));
    }
    groups.push_back(shown(group, traces[group.trace], merged(coverages), notes));
  }
  if (groups.empty()) {
    if (sources.empty()) throw std::invalid_argument("no results file was given");
    throw InputError(sources.front().name +
                     ": holds no numbers over all layers and heads to report");
  }
  return {{"groups", std::move(groups)}, {"needed", needed_sets(sources, manifests)}};
}

}  // namespace kvreplay
