#include "simulator/tabulate.hpp"

#include <hdf5.h>
#include <tbb/version.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "simulator/against.hpp"
#include "simulator/axes.hpp"
#include "simulator/coverage.hpp"
#include "simulator/csv.hpp"
#include "simulator/json_text.hpp"
#include "simulator/metrics.hpp"
#include "simulator/trace_facts.hpp"

namespace kvreplay {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kStatistics = {"mean", "p50", "p95", "p99", "max"};

/// What all rows of a cell have in common.
ResultRow row_of(const ReplayPlan& plan, const CellPlan& cell, Results& results) {
  ResultRow row;
  row.trace = results.text(plan.trace);
  row.policy = results.text(cell.policy.text);
  row.parameters = results.text(cell.traits.parameters);
  row.scope = name(plan.scope);
  row.budget = results.text(cell.budget.text);
  row.budget_tokens = cell.budget.budget.tokens;
  return row;
}

void add_octaves(const ReplayPlan& plan, const std::vector<std::string_view>& metrics,
                 const ReplayOutcome& outcome, Results& results) {
  for (std::size_t i = 0; i < outcome.octaves.size(); ++i) {
    if (outcome.octaves[i].empty()) continue;
    ResultRow row = row_of(plan, plan.cells[i / metrics.size()], results);
    row.metric = metrics[i % metrics.size()];
    row.steps = outcome.overall[i].count;
    for (const auto& [from, count] : outcome.octaves[i]) {
      std::string statistic = "from:";
      csv::append_number(statistic, from);
      row.statistic = results.text(statistic);
      row.value = static_cast<double>(count);
      results.rows.push_back(row);
    }
  }
}

}  // namespace

bool is_loss(std::string_view metric) {
  return metric == "mass_loss" || metric == "output_error" || metric.starts_with("miss_");
}

void add_rows(const ReplayPlan& plan, const ReplayOutcome& outcome, Results& results) {
  const Metrics places(plan);
  const auto& metrics = places.names();
  std::vector<std::string_view> metric_texts;
  metric_texts.reserve(metrics.size());
  for (const auto& metric : metrics) metric_texts.push_back(results.text(metric));
  struct Columns {  // of one metric of one cell, by statistic
    std::array<std::uint32_t, kStatistics.size()> shared;
    bool shows_nothing_lost;
  };
  std::vector<Columns> columns;
  for (const auto& cell : plan.cells) {
    ResultRow row = row_of(plan, cell, results);
    const bool lost_nothing = loses_nothing(plan, cell);
    for (const auto metric : metric_texts) {
      row.metric = metric;
      auto& added = columns.emplace_back();
      added.shows_nothing_lost = lost_nothing && is_loss(metric);
      for (std::size_t i = 0; i < kStatistics.size(); ++i) {
        row.statistic = kStatistics[i];
        added.shared[i] = results.rows.shared_columns(row);
      }
    }
  }
  const auto add = [&](const std::vector<Summary>& summaries, std::optional<std::uint32_t> layer,
                       std::optional<std::uint32_t> head) {
    for (std::size_t i = 0; i < summaries.size(); ++i) {
      const Summary& summary = summaries[i];
      if (summary.count == 0 && !columns[i].shows_nothing_lost) continue;
      const std::array values = {summary.mean, summary.p50, summary.p95, summary.p99, summary.max};
      for (std::size_t j = 0; j < values.size(); ++j) {
        results.rows.add(columns[i].shared[j], layer, head, values[j], summary.count);
      }
    }
  };
  // What was not asked for in detail, or not done, is empty.
  add(outcome.overall, std::nullopt, std::nullopt);
  add_octaves(plan, metric_texts, outcome, results);
  const auto layers = layers_of(plan);
  for (std::size_t i = 0; i < outcome.layers.size(); ++i) {
    add(outcome.layers[i], layers[i], std::nullopt);
  }
  for (std::size_t i = 0; i < outcome.units.size(); ++i) {
    add(outcome.units[i], plan.units[i].layer, plan.units[i].index);
  }
}

std::string manifest_json(const std::vector<ReplayedTrace>& traces, const RunFacts& facts) {
  Json manifest;
  manifest["tool"] = "kvreplay " KVREPLAY_VERSION;
  manifest["command"] = facts.command;
  manifest["started"] = facts.started;
  manifest["seconds"] = facts.seconds;
  manifest["threads"] = facts.threads;
  manifest["seed"] = facts.seed;
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  manifest["libraries"] = {
      {"HDF5", std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release)},
      {"oneTBB", std::string(TBB_runtime_version())}};
  if (!facts.not_begun.empty()) manifest["not_begun"] = facts.not_begun;
  if (!facts.optimum_done.empty()) manifest["optimum_done"] = facts.optimum_done;
  if (!facts.objective.empty()) manifest["objective"] = facts.objective;
  manifest["traces"] = Json::array();
  manifest["cells"] = Json::array();
  for (const auto& [info, plan, outcome, rows_xxh3] : traces) {
    manifest["scope"] = name(plan.scope);
    manifest["pool"] = name(plan.pooling);
    manifest["prefill"] = name(plan.prefill);
    manifest["match"] = name(plan.match);
    manifest["steps"] = name(plan.steps);
    manifest["unless_said"] = Json::object();
    for (const auto& [question, answer] : common_axes(plan.match)) {
      manifest["unless_said"][question] = answer;
    }
    manifest["needed"] = Json::object();
    for (const auto& rule : plan.needed) manifest["needed"][rule.metric()] = rule.text();
    Json trace = trace_facts(info, plan);
    trace["architecture"] = info.architecture;
    trace["encoding"] = name(info.encoding);
    trace["rows_computed"] = plan.only_visible ? "visible" : "whole";
    trace["row_sum_error"] = info.row_sum_error;
    trace["units"] = plan.units.size();
    trace["units_done"] = outcome.units_done;
    if (!rows_xxh3.empty()) trace["rows_xxh3"] = rows_xxh3;
    if (!info.sampling.all()) {
      trace["rows_from"] = info.sampling.first;
      trace["rows_every"] = info.sampling.every;
    }
    if (outcome.units_done < plan.units.size()) {
      trace["done"] = places_done(plan, outcome);
    }
    manifest["traces"].push_back(std::move(trace));
    for (std::size_t i = 0; i < plan.cells.size(); ++i) {
      const auto& cell = plan.cells[i];
      manifest["cells"].push_back(
          {{"trace", plan.trace},
           {"policy", cell.policy.text},
           {"parameters", cell.traits.parameters},
           {"budget", cell.budget.text},
           {"budget_tokens", cell.budget.budget.tokens},
           {"given_tokens", cell.given.tokens},
           {"capacity", cell.traits.capacity},
           {"most_visible", std::min(most_visible(cell.traits), plan.tokens)},
           {"unit_tokens", cell.unit_tokens},
           {"axes", own_axes(plan, cell)},
           {"note", note_on(plan, *cell.policy.entry)},
           {"unbounded", why_unbounded(plan, cell)},
           {"zero_mass_rows", outcome.zero_mass_rows[i]}});
    }
  }
  return json_text(manifest, 2);
}

}  // namespace kvreplay
