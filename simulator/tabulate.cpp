#include "simulator/tabulate.hpp"

#include <hdf5.h>
#include <tbb/version.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "simulator/cell.hpp"

namespace kvreplay {
namespace {

using Json = nlohmann::ordered_json;

bool is_loss(std::string_view metric) {
  return metric == "mass_loss" || metric.starts_with("miss_");
}

}  // namespace

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
  throw std::invalid_argument("unknown detail \"" + std::string(text) +
                              "\" (overall, layer, head)");
}

void add_rows(const ReplayPlan& plan, const ReplayOutcome& outcome, Detail detail,
              Results& results) {
  const auto metrics = metric_names(plan.needed);
  std::vector<std::string_view> metric_texts;
  metric_texts.reserve(metrics.size());
  for (const auto& metric : metrics) metric_texts.push_back(results.text(metric));
  std::vector<ResultRow> cells;  // the columns that a cell's rows share
  for (const auto& cell : plan.cells) {
    ResultRow row;
    row.trace = results.text(plan.trace);
    row.policy = results.text(cell.name());
    row.parameters = results.text(cell.traits.parameters);
    row.scope = name(plan.scope);
    row.budget = results.text(cell.budget.text);
    row.budget_tokens = cell.budget.budget.tokens;
    cells.push_back(row);
  }
  const auto add = [&](const std::vector<Summary>& summaries, std::optional<std::uint32_t> layer,
                       std::optional<std::uint32_t> head) {
    for (std::size_t i = 0; i < summaries.size(); ++i) {
      const Summary& summary = summaries[i];
      ResultRow row = cells[i / metrics.size()];
      row.metric = metric_texts[i % metrics.size()];
      const bool loses_nothing = plan.steps == Steps::active && row.budget_tokens >= plan.tokens;
      if (summary.count == 0 && !(loses_nothing && is_loss(row.metric))) continue;
      row.layer = layer;
      row.head = head;
      row.steps = summary.count;
      const auto put = [&](std::string_view statistic, double value) {
        row.statistic = statistic;
        row.value = value;
        results.rows.push_back(row);
      };
      put("mean", summary.mean);
      put("p50", summary.p50);
      put("p95", summary.p95);
      put("p99", summary.p99);
      put("max", summary.max);
    }
  };
  std::size_t sets = 1;
  if (detail != Detail::overall) sets += outcome.layers.size();
  if (detail == Detail::head && plan.scope != Scope::layer) sets += outcome.units.size();
  results.rows.reserve(results.rows.size() + sets * plan.cells.size() * metrics.size() * 5);

  add(outcome.overall, std::nullopt, std::nullopt);
  if (detail == Detail::overall) return;
  const auto layers = layers_of(plan);
  for (std::size_t i = 0; i < layers.size(); ++i) add(outcome.layers[i], layers[i], std::nullopt);
  if (detail == Detail::layer || plan.scope == Scope::layer) return;
  for (std::size_t i = 0; i < plan.units.size(); ++i) {
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
  manifest["traces"] = Json::array();
  manifest["cells"] = Json::array();
  for (const auto& [info, plan, outcome] : traces) {
    manifest["scope"] = name(plan.scope);
    manifest["steps"] = name(plan.steps);
    manifest["needed"] = Json::object();
    for (const auto& rule : plan.needed)
      manifest["needed"][std::string(rule.metric())] = rule.text();
    std::vector<std::uint32_t> heads;
    for (const auto& unit : plan.units) {
      if (unit.layer != plan.units[0].layer) break;
      heads.insert(heads.end(), unit.head_names.begin(), unit.head_names.end());
    }
    manifest["traces"].push_back({{"file", plan.trace},
                                  {"model", info.model_name},
                                  {"architecture", info.architecture},
                                  {"model_sha256", info.model_sha256},
                                  {"prompt_sha256", info.prompt_sha256},
                                  {"source", info.source},
                                  {"encoding", name(info.encoding)},
                                  {"row_sum_error", info.row_sum_error},
                                  {"tokens", info.tokens},
                                  {"prompt_tokens", info.prompt_tokens},
                                  {"layers", layers_of(plan)},
                                  {"heads", heads},
                                  {"model_layers", info.model_layers},
                                  {"model_heads", info.model_heads},
                                  {"kv_heads", info.kv_heads},
                                  {"units", plan.units.size()},
                                  {"units_done", outcome.units_done}});
    for (std::size_t i = 0; i < plan.cells.size(); ++i) {
      const auto& cell = plan.cells[i];
      manifest["cells"].push_back({{"trace", plan.trace},
                                   {"policy", cell.name()},
                                   {"parameters", cell.traits.parameters},
                                   {"budget", cell.budget.text},
                                   {"budget_tokens", cell.budget.budget.tokens},
                                   {"capacity", cell.traits.capacity},
                                   {"zero_mass_rows", outcome.zero_mass_rows[i]}});
    }
  }
  return manifest.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kvreplay
