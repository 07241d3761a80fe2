#include "reports/report_cells.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <tuple>

#include "reports/bounded_cells.hpp"
#include "reports/comparable.hpp"
#include "reports/objectives.hpp"
#include "reports/settings.hpp"

namespace kvreplay::report {
namespace {

using nlohmann::json;

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
      if (row.statistic.starts_with("from:")) {
        const std::string from(row.statistic.substr(5));
        cell.octaves[metric].emplace(std::strtod(from.c_str(), nullptr), row.value);
        return;
      }
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

  std::vector<Group> take() { return std::move(groups_); }

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

}  // namespace

std::vector<Group> collect_groups(std::span<const ReportSource> sources,
                                  std::span<const json> manifests) {
  Collector collector(sources, manifests);
  for (std::size_t source = 0; source < sources.size(); ++source) {
    for (const auto& row : sources[source].results.rows) collector.add(source, row);
  }
  collector.add_optima_of_prompts();
  return collector.take();
}

}  // namespace kvreplay::report
