#include "reports/report_data.hpp"

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include "reports/coverage.hpp"
#include "reports/report_cells.hpp"
#include "reports/report_manifests.hpp"
#include "reports/report_map.hpp"
#include "reports/report_ranking.hpp"
#include "reports/report_series.hpp"
#include "reports/report_studies.hpp"
#include "reports/report_traces.hpp"
#include "reports/shown_budgets.hpp"
#include "reports/text_table.hpp"
#include "traces/errors.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;
using namespace report;

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
  if (!trace.some_heads.empty()) facts.push_back(trace.some_heads + " only");
  facts.push_back(scope_sentence(group.scope));
  if (!trace.sampling.all()) facts.push_back("measured at " + in_words(trace.sampling));
  if (coverage.partial) facts.push_back("interrupted: the numbers are over " + coverage.over);
  for (std::size_t i = 0; i < facts.size(); ++i) text += (i == 0 ? ": " : ", ") + facts[i];
  return text + ".";
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

/// Metric -> [series][budget]; null where nothing is known, or what the budget is not listed.
json octaves_of(const Group& group, std::span<const Series> series,
                const std::set<std::uint32_t>& budgets) {
  std::set<std::string> metrics;
  for (const auto& [key, variants] : group.cells) {
    for (const auto& cell : variants) {
      for (const auto& [metric, octaves] : cell.octaves) metrics.insert(metric);
    }
  }
  json all = json::object();
  for (const auto& metric : metrics) {
    for (const auto& one : series) {
      json row = json::array();
      for (const auto& [tokens, asked] : group.budgets) {
        const Cell* cell = budgets.contains(tokens) ? find_cell(group, one, tokens) : nullptr;
        row.push_back(nullptr);
        if (cell == nullptr || !cell->octaves.contains(metric)) continue;
        row.back() = {{"from", json::array()}, {"count", json::array()}};
        for (const auto& [from, count] : cell->octaves.at(metric)) {
          row.back()["from"].push_back(from);
          row.back()["count"].push_back(count);
        }
      }
      all[metric].push_back(std::move(row));
    }
  }
  return all;
}

/// What was measured of a trace, and of which model: means are taken over what is alike only.
json alike(const Trace& trace, const json& manifest) {
  json facts = {{"model_sha256", trace.model_sha256}};
  for (const auto* key : {"match", "steps", "prefill", "pool"}) {
    const auto found = manifest.find(key);
    facts[key] = found == manifest.end() ? json() : *found;
  }
  return facts;
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
  out["budget_axis"] = evener_axis(listed(budgets));
  out["octaves"] = octaves_of(group, series, listed(budgets));
  rank(out);
  out["map"] = map_of(group, series, group.replayed.empty() ? listed(budgets) : budgets);
  out["headline"] = json::array({what_ran(group, out, trace, coverage)});
  for (auto& sentence : ranking_sentences(out)) out["headline"].push_back(std::move(sentence));
  return out;
}

}  // namespace

json report_data(std::span<const ReportSource> sources, std::span<const FindingsFile> findings) {
  std::map<std::string, Trace> traces;
  std::vector<json> manifests;
  for (const auto& source : sources) manifests.push_back(parsed_manifest(source));
  for (const auto& manifest : manifests) read_traces(manifest, traces);
  const auto collected = collect_groups(sources, manifests);
  check_alike(sources, manifests);
  json groups = json::array();
  for (const auto& group : collected) {
    std::vector<Coverage> coverages;
    Notes notes;
    for (const auto source : group.sources) {
      read_notes(manifests[source], group, notes);
      coverages.push_back(
          coverage_of(manifests[source], sources[source].results.partial, group.trace));
    }
    const auto& trace = traces[group.trace];
    groups.push_back(shown(group, trace, merged(coverages), notes));
    groups.back()["alike"] = alike(trace, manifests[*group.sources.begin()]);
  }
  if (sources.empty() && findings.empty()) {
    throw std::invalid_argument("no results file was given");
  }
  if (groups.empty() && !sources.empty()) {
    throw InputError(sources.front().name +
                     ": holds no numbers over all layers and heads to report");
  }
  json data = {{"groups", with_means_over_traces(std::move(groups))},
               {"needed", needed_sets(sources, manifests)}};
  data.update(report_studies(findings, manifests));
  return data;
}

}  // namespace kvreplay