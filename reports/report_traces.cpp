#include "reports/report_traces.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reports/report_ranking.hpp"
#include "reports/shown_budgets.hpp"
#include "reports/text_table.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;
using Groups = std::vector<const json*>;
using Positions = std::vector<std::size_t>;  // of one thing, by trace

/// What all traces have, in the order of the first.
std::vector<Positions> common(
    const Groups& groups, const std::function<std::vector<std::string>(const json&)>& names_of) {
  std::vector<std::vector<std::string>> names;
  for (const auto* group : groups) names.push_back(names_of(*group));
  std::vector<Positions> all;
  for (const auto& name : names.front()) {
    Positions places;
    for (const auto& others : names) {
      const auto found = std::find(others.begin(), others.end(), name);
      if (found == others.end()) break;
      places.push_back(static_cast<std::size_t>(found - others.begin()));
    }
    if (places.size() == groups.size()) all.push_back(places);
  }
  return all;
}

std::vector<std::string> series_names(const json& group) {
  std::vector<std::string> names;
  for (const auto& series : group["series"]) names.push_back(series["name"]);
  return names;
}

std::vector<std::string> budget_names(const json& group) {
  std::vector<std::string> names;
  for (const auto& budget : group["budgets"]) {
    const auto& share = budget["share"].get_ref<const std::string&>();
    names.push_back(share.empty() ? budget["tokens"].dump() : share);
  }
  return names;
}

struct MeanOverTraces {
  double mean = 0;
  double half = 0;  ///< of the interval's width
};

/// None: not all traces have it.
std::optional<MeanOverTraces> mean_over(const std::vector<const json*>& values) {
  double sum = 0;
  for (const auto* value : values) {
    if (value->is_null()) return std::nullopt;
    sum += value->get<double>();
  }
  const auto n = static_cast<double>(values.size());
  MeanOverTraces found{.mean = sum / n};
  double squares = 0;
  for (const auto* value : values) {
    const double off = value->get<double>() - found.mean;
    squares += off * off;
  }
  const boost::math::students_t distribution(n - 1);
  const double t = boost::math::quantile(distribution, (1 + kTraceLevel) / 2);
  found.half = t * std::sqrt(squares / (n - 1) / n);
  return found;
}

/// The mean of traces that share their model.
class Mean {
 public:
  explicit Mean(Groups groups)
      : groups_(std::move(groups)),
        series_(common(groups_, series_names)),
        budgets_(common(groups_, budget_names)) {}

  bool has_any() const { return !series_.empty() && !budgets_.empty(); }

  json group() const {
    const json& first = *groups_.front();
    json out = {{"scope", first["scope"]}, {"model", first["model"]}, {"alike", first["alike"]}};
    out["trace"] = "mean over " + std::to_string(groups_.size()) + " traces of " +
                   first["model"].get<std::string>();
    out["traces"] = json::array();
    out["partial"] = false;
    out["tokens"] = first["tokens"];
    for (const auto* one : groups_) {
      out["traces"].push_back((*one)["trace"]);
      if ((*one)["partial"].get<bool>()) out["partial"] = true;
      if ((*one)["tokens"] != first["tokens"]) out["tokens"] = 0;
    }
    out["over"] = std::to_string(groups_.size()) + " traces, each of which counts once";
    out["series"] = json::array();
    for (const auto& places : series_) out["series"].push_back(first["series"][places.front()]);
    add_budgets(out);
    add_values(out);
    add_map(out);
    out["octaves"] = json::object();
    rank(out);
    out["headline"] = json::array({in_words(out)});
    for (auto& sentence : ranking_sentences(out)) out["headline"].push_back(std::move(sentence));
    return out;
  }

 private:
  void add_budgets(json& out) const {
    for (const char* key : {"budgets", "replayed", "listed"}) out[key] = json::array();
    std::set<std::uint32_t> on_axis;
    for (std::size_t b = 0; b < budgets_.size(); ++b) {
      const auto& places = budgets_[b];
      double tokens = 0;
      bool replayed = true;
      bool listed = true;
      for (std::size_t t = 0; t < groups_.size(); ++t) {
        const json& group = *groups_[t];
        tokens += group["budgets"][places[t]]["tokens"].get<double>();
        const auto has = [&](const char* key) {
          return std::find(group[key].begin(), group[key].end(), json(places[t])) !=
                 group[key].end();
        };
        replayed = replayed && has("replayed");
        listed = listed && has("listed");
      }
      const auto mean =
          static_cast<std::uint32_t>(std::ceil(tokens / static_cast<double>(groups_.size())));
      out["budgets"].push_back(
          {{"tokens", mean}, {"share", groups_.front()->at("budgets")[places.front()]["share"]}});
      if (replayed) out["replayed"].push_back(b);
      if (listed) {
        out["listed"].push_back(b);
        on_axis.insert(mean);
      }
    }
    out["budget_axis"] = evener_axis(on_axis);
  }

  /// [series][budget] of pick(the entries of all traces).
  template <class Pick>
  json table(const std::vector<const json*>& tables, const Pick& pick) const {
    json rows = json::array();
    for (const auto& series : series_) {
      json row = json::array();
      for (const auto& budget : budgets_) {
        std::vector<const json*> entries;
        entries.reserve(tables.size());
        for (std::size_t t = 0; t < tables.size(); ++t) {
          entries.push_back(&tables[t]->at(series[t])[budget[t]]);
        }
        row.push_back(pick(entries));
      }
      rows.push_back(std::move(row));
    }
    return rows;
  }

  std::vector<const json*> tables(const std::function<const json*(const json&)>& of) const {
    std::vector<const json*> found;
    for (const auto* group : groups_) {
      const json* one = of(*group);
      if (one == nullptr) return {};
      found.push_back(one);
    }
    return found;
  }

  void add_values(json& out) const {
    const auto of_key = [this](const char* key) {
      return tables([key](const json& group) { return &group[key]; });
    };
    out["parameters"] = table(of_key("parameters"), [](const auto& entries) {
      const bool equal = std::all_of(entries.begin(), entries.end(),
                                     [&](const auto* entry) { return *entry == *entries[0]; });
      return equal ? *entries[0] : json("");
    });
    out["unbounded"] = table(of_key("unbounded"), [](const auto& entries) {
      for (const auto* entry : entries) {
        if (!entry->is_null()) return *entry;
      }
      return json();
    });
    out["samples"] = table(of_key("samples"), [](const auto& entries) {
      std::uint64_t sum = 0;
      for (const auto* entry : entries) {
        if (entry->is_null()) return json();
        sum += entry->template get<std::uint64_t>();
      }
      return json(sum);
    });
    out["values"] = json::object();
    out["intervals"] = json::object();
    for (const auto& [metric, statistics] : (*groups_.front())["values"].items()) {
      for (const auto& [statistic, unused] : statistics.items()) {
        const auto found = tables([&m = metric, &s = statistic](const json& group) -> const json* {
          const auto values = group["values"].find(m);
          if (values == group["values"].end() || !values->contains(s)) return nullptr;
          return &values->at(s);
        });
        if (found.empty()) continue;
        const auto pick = [](const auto& value) {
          return [value](const std::vector<const json*>& entries) {
            const auto mean = mean_over(entries);
            return mean ? json(value(*mean)) : json();
          };
        };
        out["values"][metric][statistic] =
            table(found, pick([](const MeanOverTraces& of) { return of.mean; }));
        if (statistic != "mean") continue;
        out["intervals"][metric] = {
            {"low", table(found, pick([](const auto& of) { return of.mean - of.half; }))},
            {"high", table(found, pick([](const auto& of) { return of.mean + of.half; }))}};
      }
    }
  }

  /// Where all traces are of the same layers and heads.
  void add_map(json& out) const {
    out["map"] = nullptr;
    const json& first = (*groups_.front())["map"];
    for (const auto* group : groups_) {
      const json& map = (*group)["map"];
      if (map.is_null() || map["layers"] != first["layers"] || map["units"] != first["units"]) {
        return;
      }
    }
    out["map"] = {{"layers", first["layers"]}, {"units", first["units"]}};
    for (const char* key : {"values", "policy_loss"}) {
      out["map"][key] =
          table(tables([key](const json& group) { return &group["map"][key]; }), means_of_cells);
    }
  }

  static json means_of_cells(const std::vector<const json*>& maps) {
    json means = json::array();
    for (const auto* map : maps) {
      if (map->is_null()) return nullptr;
    }
    for (std::size_t cell = 0; cell < maps.front()->size(); ++cell) {
      std::vector<const json*> values;
      values.reserve(maps.size());
      for (const auto* map : maps) values.push_back(&map->at(cell));
      const auto mean = mean_over(values);
      means.push_back(mean ? json(rounded(mean->mean)) : json());
    }
    return means;
  }

  std::string in_words(const json& out) const {
    std::string names;
    for (const auto& name : out["traces"]) {
      names += (names.empty() ? "" : ", ") + name.get<std::string>();
    }
    return "Means over " + counted(groups_.size(), "trace") + " of " +
           out["model"].get<std::string>() + ", each of which counts once (" + names +
           "): intervals are of 95 % by Student's t over the traces, n = " +
           std::to_string(groups_.size()) +
           (groups_.size() < 5 ? "; of so few they are wide, and rest on the traces being alike."
                               : ".");
  }

  Groups groups_;
  std::vector<Positions> series_;
  std::vector<Positions> budgets_;
};

}  // namespace

json with_means_over_traces(json groups) {
  json out = json::array();
  std::set<std::size_t> used;
  std::set<std::string> models;
  for (std::size_t at = 0; at < groups.size(); ++at) {
    const json& first = groups[at];
    models.insert(first["model"].get<std::string>() + first["alike"]["model_sha256"].dump());
    if (first["model"] == "" || used.contains(at)) continue;
    Groups alike;
    std::set<std::string> names;
    for (std::size_t other = at; other < groups.size(); ++other) {
      const json& group = groups[other];
      if (group["model"] != first["model"] || group["scope"] != first["scope"] ||
          group["alike"] != first["alike"]) {
        continue;
      }
      used.insert(other);
      if (names.insert(group["trace"]).second) alike.push_back(&group);
    }
    if (alike.size() < 2) continue;
    const Mean mean(alike);
    if (mean.has_any()) out.push_back(mean.group());
  }
  if (!out.empty() && models.size() > 1) {
    for (auto& group : out) {
      group["headline"].push_back("There are traces of " + std::to_string(models.size()) +
                                  " models here: no mean mixes them.");
    }
  }
  for (auto& group : groups) out.push_back(std::move(group));
  return out;
}

}  // namespace kvreplay
