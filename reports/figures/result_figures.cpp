#include "reports/figures/result_figures.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>

#include "reports/assets.hpp"
#include "reports/figures/looks.hpp"
#include "reports/text_table.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;

double number(const json& value) {
  return value.is_number() ? value.get<double>() : kNoNumber;
}

std::string budget_text(const json& group, std::size_t budget) {
  const json& asked = group["budgets"][budget];
  const auto& share = asked["share"].get_ref<const std::string&>();
  return grouped(asked["tokens"].get<std::uint64_t>()) + (share.empty() ? "" : " (" + share + ")");
}

/// As asked for, else in percent of n; empty: n is not one number.
std::string share_text(const json& group, std::size_t budget) {
  const json& asked = group["budgets"][budget];
  const auto& share = asked["share"].get_ref<const std::string&>();
  const auto n = group["tokens"].get<double>();
  if (!share.empty() || n == 0) return share;
  const double part = asked["tokens"].get<double>() / n;
  char text[32];
  std::snprintf(text, sizeof text, part < 0.0995 ? "%.2g%%" : "%.3g%%", 100 * part);
  return text;
}

std::string id_start(const json& group) {
  return id_of(group["trace"].get<std::string>()) + "-" + group["scope"].get<std::string>() + "-";
}

/// "SmolLM2, trace.h5, scope head"
std::string of_what(const json& group) {
  std::string text = group["model"];
  if (!group.contains("traces") || text.empty()) {
    text += (text.empty() ? "" : ", ") + group["trace"].get<std::string>();
  } else {
    text += ", " + std::to_string(group["traces"].size()) + " traces";
  }
  return text + ", scope " + group["scope"].get<std::string>();
}

/// The entry of metrics.json; null: not known there.
json metric_of(const std::string& name) {
  static const json metrics = json::parse(assets::metrics());
  for (const auto& metric : metrics) {
    const auto& known = metric["name"].get_ref<const std::string&>();
    if (name == known || name.starts_with(known + ":")) return metric;
  }
  return nullptr;
}

std::string title_of(const std::string& name) {
  const json metric = metric_of(name);
  if (metric.is_null()) return name;
  const auto colon = name.find(':');
  return metric["title"].get<std::string>() +
         (colon == std::string::npos ? "" : " at " + name.substr(colon + 1));
}

/// The looks of all series of a group, as on the page: policies in turn, bounds grey and dashed.
std::vector<FigureSeries> looks_of(const json& group) {
  std::map<std::string, std::size_t> bounds;  // of each kind, so many before
  std::vector<FigureSeries> all;
  std::size_t next = 0;
  for (const auto& series : group["series"]) {
    FigureSeries one;
    one.name = series["name"];
    if (series["bound"].is_null()) {
      one.look = next;
      one.dash = (next / 8) % 4;
      ++next;
    } else {
      const std::string bound = series["bound"];
      one.name += bound_note(one.name);
      one.dash = dash_of_bound(bound, bounds[bound]++);
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::string interval_words(const json& group) {
  if (!group.contains("traces")) return "";
  return " Bands: intervals of 95 % by Student's t over " + std::to_string(group["traces"].size()) +
         " traces.";
}

Figure over_budget(const json& group, const std::string& metric) {
  constexpr std::size_t kManyPoints = 24;
  const json known = metric_of(metric);
  Figure figure;
  figure.id = id_start(group) + id_of(metric) + "-over-budget";
  figure.title = title_of(metric) + " over the budget";
  figure.caption = of_what(group) + ". Mean over the samples of " +
                   group["over"].get<std::string>() + "." + interval_words(group);
  if (!known.is_null()) {
    figure.caption += " " + title_of(metric) + ": " + known["formula"].get<std::string>() + ".";
  }
  const auto n = group["tokens"].get<std::uint64_t>();
  figure.x.title = n > 0 ? "Budget k: tokens kept, and their share of n = " + grouped(n)
                         : "Budget k: tokens kept";
  figure.x.logarithmic = group["budget_axis"] == "log";
  figure.y = {.title = title_of(metric), .from_zero = metric != "share_of_optimum"};
  // The budgets that the page names too, where they were measured.
  std::set<std::size_t> measured;
  auto looks = looks_of(group);
  const json& table = group["values"][metric]["mean"];
  const json* intervals = nullptr;
  if (const auto found = group.find("intervals"); found != group.end() && found->contains(metric)) {
    intervals = &found->at(metric);
  }
  for (std::size_t s = 0; s < looks.size(); ++s) {
    auto& series = looks[s];
    for (std::size_t b = 0; b < group["budgets"].size(); ++b) {
      if (table[s][b].is_null()) continue;
      const double tokens = group["budgets"][b]["tokens"];
      measured.insert(b);
      series.x.push_back(tokens);
      series.y.push_back(number(table[s][b]));
      if (intervals == nullptr) continue;
      series.low.push_back(number(intervals->at("low")[s][b]));
      series.high.push_back(number(intervals->at("high")[s][b]));
    }
    series.marks = series.x.size() <= kManyPoints;
    if (!series.x.empty()) figure.series.push_back(std::move(series));
  }
  for (const auto& listed : group["listed"]) {
    const auto b = listed.get<std::size_t>();
    if (!measured.contains(b)) continue;
    figure.x.ticks.push_back(group["budgets"][b]["tokens"]);
    figure.x.notes.push_back(share_text(group, b));
  }
  // As in the page's legends, bounds come last.
  std::stable_partition(figure.series.begin(), figure.series.end(),
                        [](const auto& series) { return series.look.has_value(); });
  return figure;
}

/// The smallest budget that has a best policy, and that policy.
std::optional<std::pair<std::size_t, std::size_t>> where_it_is_hardest(const json& group) {
  for (std::size_t b = 0; b < group["best"].size(); ++b) {
    const json& first = group["best"][b]["first"];
    if (!first.empty()) return std::pair(b, first[0].get<std::size_t>());
  }
  return std::nullopt;
}

std::optional<Figure> head_map(const json& group) {
  const auto where = where_it_is_hardest(group);
  if (!where || group["map"].is_null()) return std::nullopt;
  const auto [budget, series] = *where;
  const json& map = group["map"];
  const bool own = !map["policy_loss"][series][budget].is_null();
  const json& values = own ? map["policy_loss"][series][budget] : map["values"][series][budget];
  if (values.is_null()) return std::nullopt;
  Figure figure;
  figure.id = id_start(group) + "loss-by-head";
  figure.title = "Loss of " + group["series"][series]["name"].get<std::string>() +
                 (own ? " beyond the optimum's" : "") + " by layer and head";
  figure.caption = of_what(group) + ". Mean attention-mass loss" +
                   (own ? " less that of the optimum" : "") + " at budget " +
                   budget_text(group, budget) + ". Grey: not known." + kCellsShowPercent;
  FigureCells cells;
  cells.layers = map["layers"].get<std::vector<std::uint32_t>>();
  cells.units = map["units"].get<std::vector<std::uint32_t>>();
  cells.unit_title = group["scope"] == "group" ? "KV group" : "query head";
  cells.value_title = own ? "policy loss" : "mean loss";
  cells.percent = true;
  for (const auto& value : values) cells.values.push_back(number(value));
  figure.cells = std::move(cells);
  return figure;
}

/// How the samples of a metric are spread over powers of two, at the smallest budget.
std::optional<Figure> spread_of(const json& group, const std::string& metric) {
  const auto where = where_it_is_hardest(group);
  const auto found = group["octaves"].find(metric);
  if (!where || found == group["octaves"].end()) return std::nullopt;
  const std::size_t budget = where->first;
  const bool age = metric == "age";
  Figure figure;
  figure.id = id_start(group) + id_of(metric) + "-spread";
  figure.title = age ? "Age of what is kept" : title_of(metric);
  figure.caption =
      of_what(group) + ", budget " + budget_text(group, budget) + ". " +
      (age ? "Share of the (head, step) samples whose kept set is on average so many steps old"
           : "Share of the regretted evictions whose token is needed again after so many steps") +
      ": a point at x counts those from x to below 2x.";
  figure.x = {.title = age ? "mean age of the kept set, steps" : "steps between eviction and need",
              .logarithmic = true};
  figure.y = {.title = age ? "share of samples" : "share of regretted evictions",
              .from_zero = true};
  auto looks = looks_of(group);
  for (std::size_t s = 0; s < looks.size(); ++s) {
    const json& octaves = (*found)[s][budget];
    if (octaves.is_null()) continue;
    double all = 0;
    for (const auto& count : octaves["count"]) all += count.get<double>();
    for (std::size_t i = 0; i < octaves["from"].size(); ++i) {
      const double from = number(octaves["from"][i]);
      if (!(from > 0)) continue;
      looks[s].x.push_back(from);
      looks[s].y.push_back(number(octaves["count"][i]) / all);
    }
    if (!looks[s].x.empty()) figure.series.push_back(std::move(looks[s]));
  }
  if (figure.series.empty()) return std::nullopt;
  return figure;
}

}  // namespace

std::vector<Figure> result_figures(const json& group) {
  std::vector<Figure> figures;
  for (const auto& [metric, statistics] : group["values"].items()) {
    if (statistics.contains("mean")) figures.push_back(over_budget(group, metric));
  }
  if (auto map = head_map(group)) figures.push_back(std::move(*map));
  for (const auto& [metric, unused] : group["octaves"].items()) {
    if (auto spread = spread_of(group, metric)) figures.push_back(std::move(*spread));
  }
  return figures;
}

}  // namespace kvreplay
