#include <algorithm>
#include <stdexcept>

#include "reports/claims/printed.hpp"
#include "reports/claims/quantity.hpp"
#include "simulator/metrics.hpp"

namespace kvreplay::claims {
namespace {

/// The layers of a part, by model index.
std::vector<std::uint32_t> layers_in(const ReplayPlan& plan, Part part) {
  auto all = layers_of(plan);
  if (part == Part::all) return all;
  if (all.size() < 2) throw std::invalid_argument(plan.trace + ": two layers are needed for this");
  const auto half = static_cast<std::ptrdiff_t>(all.size() / 2);
  return part == Part::earlier ? std::vector(all.begin(), all.begin() + half)
                               : std::vector(all.end() - half, all.end());
}

std::size_t position_of(const ReplayPlan& plan, const ReplayCell& cell) {
  const auto found = std::find_if(plan.cells.begin(), plan.cells.end(), [&](const auto& planned) {
    return planned.policy.text == cell.policy && is_called(planned.budget, cell.budget);
  });
  if (found == plan.cells.end()) throw std::logic_error("a claim's replay was not asked for");
  return static_cast<std::size_t>(found - plan.cells.begin());
}

Point point_of(const Summary& summary, const std::string& metric) {
  // The mean of times is at the mercy of whatever else runs.
  if (metric == "cost_ns") return {summary.p50, 1};
  const auto count = static_cast<double>(summary.count);
  return {summary.mean * count, count};
}

/// By unit where it is measured so, else by layer.
Sample sample_of(const ReplayFacts& facts, const ReplayCell& cell) {
  const auto& [plan, outcome] = facts;
  if (plan.group_size == 1 && (cell.metric == "union_ratio" || plan.scope == Scope::group)) {
    throw std::invalid_argument(plan.trace +
                                " is of a model whose KV heads serve one query head each");
  }
  const Metrics metrics(plan);
  const auto& names = metrics.names();
  const auto metric = std::find(names.begin(), names.end(), cell.metric);
  if (metric == names.end()) {
    throw std::invalid_argument(plan.trace + " does not tell " + cell.metric);
  }
  const auto position = static_cast<std::size_t>(metric - names.begin());
  const auto at = position_of(plan, cell) * names.size() + position;
  const auto parts = layers_in(plan, cell.part);
  const auto layers = layers_of(plan);
  const bool by_unit = !outcome.units.empty() && !metrics.of_groups(position);
  const auto& summaries = by_unit ? outcome.units : outcome.layers;
  Sample sample;
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    const auto layer = by_unit ? plan.units[i].layer : layers[i];
    if (std::find(parts.begin(), parts.end(), layer) == parts.end()) continue;
    sample.points.push_back(point_of(summaries[i][at], cell.metric));
    sample.layers.push_back(layer);
  }
  return sample;
}

std::string named(const ReplayCell& cell) {
  std::string name = cell.metric;
  if (name == "mass_loss") name = "mass loss";
  if (name == "union_ratio") name = "union over a KV group / mean set";
  if (name == "age") name = "mean age of the kept";
  if (name == "cost_ns") name = "median nanoseconds for each step and head";
  if (name == "regret_top") name = "evicted tokens that are among the 4 largest of a later row";
  name += (cell.metric == "regret_top" ? ", " : " of ") + cell.policy + " at " + cell.budget;
  switch (cell.setting) {
    case Setting::group:
      name += " with a set for each KV group";
      break;
    case Setting::layer:
      name += " with a set for each layer";
      break;
    case Setting::decoded:
      name += " behind the prompt";
      break;
    case Setting::after_prompt:
      name += " behind a prompt attended in full";
      break;
    case Setting::group_prompt:
      name += " behind a prompt attended in full, with a set for each KV group";
      break;
    case Setting::stream:
    case Setting::evictions:
    case Setting::cost:
      break;
  }
  if (cell.part == Part::earlier) name += " in the lower half of the layers";
  if (cell.part == Part::later) name += " in the upper half of the layers";
  return name;
}

/// By simulate --show.
bool is_printed_on_request(const std::string& metric) {
  return metric == "age" || metric.starts_with("regret_");
}

void add_new(std::string& list, const std::string& word) {
  if (("," + list + ",").find("," + word + ",") != std::string::npos) return;
  list += (list.empty() ? "" : ",") + word;
}

}  // namespace

Quantity replayed(ReplayCell cell) {
  const bool ratio = cell.metric == "union_ratio";
  return {
      .name = named(cell),
      .measure =
          [cell](Evidence& evidence) { return sample_of(evidence.replayed(cell.setting), cell); },
      .shown = ratio ? two_digits : four_digits,
      .command = {},
      .cell = cell};
}

Quantity loss(std::string policy, std::string budget, Setting setting, Part part) {
  return replayed(
      {.setting = setting, .policy = std::move(policy), .budget = std::move(budget), .part = part});
}

Quantity state_share(std::string policy, std::string budget) {
  const ReplayCell cell{.setting = Setting::cost,
                        .policy = std::move(policy),
                        .budget = std::move(budget),
                        .metric = "state_bytes"};
  return {.name = "bytes of state of " + cell.policy + " at " + cell.budget +
                  ", and their share of the keys and values in fp16 that it manages",
          .measure =
              [cell](Evidence& evidence) {
                const auto& facts = evidence.replayed(cell.setting);
                if (facts.plan.head_size == 0) {
                  throw std::invalid_argument(evidence.trace() + " does not know its head size");
                }
                auto sample = sample_of(facts, cell);
                const auto [bytes, count] = sum_of(sample.points);
                if (count == 0) {
                  throw std::invalid_argument(cell.policy + " does not say what it remembers");
                }
                sample.printed = whole(bytes / count);
                const auto tokens = facts.plan.cells[position_of(facts.plan, cell)];
                const double managed =
                    4.0 * facts.plan.head_size * tokens.budget.budget.tokens;  // K and V, 2 bytes
                for (auto& point : sample.points) point.sum /= managed;
                return sample;
              },
          .shown = percent,
          .command = {},
          .cell = cell};
}

Quantity step_time(std::string policy, std::string budget) {
  auto quantity = replayed({.setting = Setting::cost,
                            .policy = std::move(policy),
                            .budget = std::move(budget),
                            .metric = "cost_ns"});
  quantity.shown = whole;
  quantity.of_machine = true;
  return quantity;
}

std::vector<std::string> simulate_commands(const Evidence& evidence,
                                           const std::vector<ReplayCell>& cells) {
  std::vector<std::string> commands;
  std::vector<bool> printed(cells.size());
  for (std::size_t first = 0; first < cells.size(); ++first) {
    if (printed[first]) continue;
    std::string policies;
    std::string budgets;
    std::string shown;
    for (std::size_t at = first; at < cells.size(); ++at) {
      if (cells[at].setting != cells[first].setting || cells[at].part != cells[first].part)
        continue;
      printed[at] = true;
      add_new(policies, cells[at].policy);
      add_new(budgets, cells[at].budget);
      if (is_printed_on_request(cells[at].metric)) add_new(shown, cells[at].metric);
    }
    std::string layers;
    if (cells[first].part != Part::all) {
      layers = index_ranges(layers_in(evidence.heads(), cells[first].part));
    }
    std::string options = " --policy " + policies + " --budget " + budgets;
    options += options_of(cells[first].setting);
    if (!shown.empty()) options += " --show " + shown;
    commands.push_back(evidence.command("simulate", options, layers));
  }
  return commands;
}

}  // namespace kvreplay::claims
