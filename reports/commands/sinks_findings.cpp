#include "reports/commands/sinks_findings.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "reports/commands/option_text.hpp"
#include "traces/quoted.hpp"

namespace kvreplay::commands {
namespace {

using Json = nlohmann::ordered_json;

Json number(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

/// The places of the largest, the largest first; of equal ones the first.
std::vector<std::size_t> heaviest(std::span<const double> mass, std::size_t most) {
  std::vector<std::size_t> order(mass.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return mass[a] > mass[b]; });
  order.resize(std::min(order.size(), most));
  return order;
}

Json classes_of(const attention::SinksQuestion& question, const SinksSums& all) {
  Json classes = Json::array();
  for (std::size_t kind = 0; kind < question.groups.size(); ++kind) {
    const auto& groups = question.groups[kind];
    if (groups.kind != "class") continue;
    const auto tokens = tokens_of(groups);
    for (std::size_t at = 0; at < tokens.size(); ++at) {
      if (tokens[at] == 0) continue;
      const auto& got = all.found.groups[kind][at];
      classes.push_back({{"name", groups.names[at]},
                         {"tokens", tokens[at]},
                         {"mass", all.mean(got.mass)},
                         {"even_mass", all.mean(got.even)},
                         {"heavy", all.mean(got.heavy)}});
    }
  }
  return classes;
}

Json tokens_of(const ReplayPlan& plan, const SinksSums& all) {
  auto places = heaviest(all.found.mass, kTokensOfTrace);
  std::sort(places.begin(), places.end());
  Json tokens = {{"position", Json::array()},
                 {"text", Json::array()},
                 {"mass", Json::array()},
                 {"even_mass", Json::array()}};
  for (const auto place : places) {
    tokens["position"].push_back(place);
    if (!plan.pieces.empty()) {
      tokens["text"].push_back(printable(plan.pieces[place]));
    }
    tokens["mass"].push_back(all.mean(all.found.mass[place]));
    tokens["even_mass"].push_back(all.mean(all.found.even[place]));
  }
  return tokens;
}

}  // namespace

nlohmann::ordered_json sinks_of_head(std::uint32_t layer, std::uint32_t head,
                                     const attention::SinksOfHead& found, double epsilon) {
  Json positions = Json::array();
  Json mass = Json::array();
  for (const auto place : heaviest(found.mass, kTokensOfHead)) {
    positions.push_back(place);
    mass.push_back(found.mass[place]);
  }
  return {{"layer", layer},
          {"head", head},
          {"first_mean", number(found.first_mean)},
          {"first_of_last_row", number(found.first_of_last_row)},
          {"sink_head", found.first_mean && *found.first_mean > epsilon},
          {"heavy_sinks", found.heavy_sinks},
          {"gini", found.all.gini},
          {"top_share", found.all.top},
          {"tokens", {{"position", positions}, {"mass", mass}}}};
}

void add_sinks(const attention::SinksQuestion& question, const ReplayPlan& plan,
               const SinksSums& all, nlohmann::ordered_json heads, double epsilon,
               nlohmann::ordered_json& findings) {
  findings["epsilon"] = epsilon;
  findings["sinks"] = question.sinks;
  findings["heavy"] = question.heavy;
  findings["overall"] = {
      {"heads", all.heads},
      {"sink_heads", all.sink_heads},
      {"first_mean", all.with_rows > 0 ? Json(all.mean_with_rows(all.first_mean)) : Json()},
      {"heavy_sinks", all.mean(all.found.heavy_sinks)},
      {"gini", all.mean(all.found.all.gini)},
      {"top_share", all.mean(all.found.all.top)},
      {"gini_rest", all.mean(all.found.rest.gini)},
      {"top_share_rest", all.mean(all.found.rest.top)}};
  findings["classes"] = classes_of(question, all);
  findings["tokens"] = tokens_of(plan, all);
  findings["heads"] = std::move(heads);
}

}  // namespace kvreplay::commands
