#include "reports/report_map.hpp"

#include "reports/text_table.hpp"

namespace kvreplay::report {
namespace {

using nlohmann::json;

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

}  // namespace

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

}  // namespace kvreplay::report
