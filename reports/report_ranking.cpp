#include "reports/report_ranking.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "reports/comparable.hpp"
#include "reports/text_table.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;

/// The samples that most policies have at a budget; among equals the larger number.
std::optional<std::uint64_t> usual_samples(const json& shown, std::size_t budget) {
  std::map<std::uint64_t, std::size_t> policies;
  for (std::size_t s = 0; s < shown["series"].size(); ++s) {
    const json& samples = shown["samples"][s][budget];
    if (shown["series"][s]["bound"].is_null() && !samples.is_null()) {
      ++policies[samples.get<std::uint64_t>()];
    }
  }
  const auto most =
      std::max_element(policies.rbegin(), policies.rend(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == policies.rend()) return std::nullopt;
  return most->first;
}

/// Why losses of a series cannot be set against those of others: "steps", "size"; null: they can.
json unranked(const json& shown, std::size_t series, std::size_t budget,
              std::optional<std::uint64_t> usual) {
  if (!shown["series"][series]["bound"].is_null()) return nullptr;
  const json& samples = shown["samples"][series][budget];
  if (!samples.is_null() && samples.get<std::uint64_t>() != usual) return "steps";
  const auto visible = shown["values"].find("visible");
  if (visible == shown["values"].end() || !visible->contains("mean")) return nullptr;
  const json& seen = (*visible)["mean"][series][budget];
  const auto tokens = shown["budgets"][budget]["tokens"].get<std::uint32_t>();
  if (!seen.is_null() && sees_too_many(seen.get<double>(), tokens)) return "size";
  return nullptr;
}

json all_unranked(const json& shown) {
  json reasons = json::array();
  for (std::size_t s = 0; s < shown["series"].size(); ++s) reasons.push_back(json::array());
  for (std::size_t b = 0; b < shown["budgets"].size(); ++b) {
    const auto usual = usual_samples(shown, b);
    for (std::size_t s = 0; s < reasons.size(); ++s) {
      reasons[s].push_back(unranked(shown, s, b, usual));
    }
  }
  return reasons;
}

/// Losses are printed to four digits: what differs by less is equal.
constexpr double kEqual = 1e-4;

json best_at(const json& shown, std::size_t budget) {
  const json& series = shown["series"];
  const json& mean_loss = shown["values"]["mass_loss"]["mean"];
  std::multimap<double, std::size_t> by_loss;
  for (std::size_t s = 0; s < series.size(); ++s) {
    const json& loss = mean_loss[s][budget];
    if (!series[s]["bound"].is_null() || loss.is_null()) continue;
    if (!shown["unranked"][s][budget].is_null()) continue;
    by_loss.emplace(loss.get<double>(), s);
  }
  json best = {{"first", json::array()}, {"second", json::array()}};
  auto place = by_loss.begin();
  for (const char* rank : {"first", "second"}) {
    std::set<std::size_t> tied;
    for (const auto least = place; place != by_loss.end() && place->first - least->first < kEqual;
         ++place) {
      tied.insert(place->second);
    }
    best[rank] = tied;
  }
  return best;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  return text;
}

/// What the shares of all budgets are of, "%" or "%prompt"; empty: they are not of the same.
std::string unit_of(const json& budgets) {
  std::set<std::string> units;
  for (const auto& budget : budgets) {
    const auto& share = budget["share"].get_ref<const std::string&>();
    units.insert(share.empty() ? "" : share.substr(share.find('%')));
  }
  return units.size() == 1 ? *units.begin() : "";
}

/// Positions of budgets, ascending, as text: "2%–35%", "50% and 80%"; all in tokens where some are.
std::string budget_ranges(const json& budgets, std::span<const std::size_t> where) {
  const bool shares = !unit_of(budgets).empty();
  const auto budget_name = [&](std::size_t b) {
    return shares ? budgets[b]["share"].get<std::string>() : grouped(budgets[b]["tokens"]);
  };
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < where.size();) {
    std::size_t last = i;
    while (last + 1 < where.size() && where[last + 1] == where[last] + 1) ++last;
    if (last - i < 2) {
      ranges.push_back(budget_name(where[i]));
      last = i;
    } else {
      ranges.push_back(budget_name(where[i]) + "–" + budget_name(where[last]));
    }
    i = last + 1;
  }
  return joined(ranges);
}

/// Who loses least where: "h2o at 2%-35%, tova at 50% and 80%".
std::string who_is_best(const json& shown) {
  const auto& budgets = shown["budgets"];
  const auto& best = shown["best"];
  std::vector<std::string> winners;
  std::map<std::string, std::vector<std::size_t>> at;
  for (std::size_t b = 0; b < budgets.size(); ++b) {
    std::vector<std::string> names;
    for (const auto& s : best[b]["first"])
      names.push_back(shown["series"][s.get<std::size_t>()]["name"]);
    if (names.empty()) continue;
    const std::string name = joined(names) + (names.size() > 1 ? " (equal)" : "");
    if (!at.contains(name)) winners.push_back(name);
    at[name].push_back(b);
  }
  if (winners.empty() || shown["series"].size() < 2) return "";
  std::string text = "Lowest mean attention-mass loss";
  if (shown["partial"]) text += ", over " + shown["over"].get<std::string>() + " only";
  text += ": ";
  for (const auto& name : winners) {
    text += (name == winners.front() ? "" : "; ") + name + " at budget " +
            budget_ranges(budgets, at[name]);
  }
  return text + ".";
}

/// Whose losses are not ranked, and why; empty where all are.
std::string who_is_left_out(const json& shown, const std::string& reason, const std::string& why) {
  std::vector<std::string> left_out;
  for (std::size_t s = 0; s < shown["series"].size(); ++s) {
    std::vector<std::size_t> where;
    std::size_t measured = 0;
    for (std::size_t b = 0; b < shown["budgets"].size(); ++b) {
      if (!shown["samples"][s][b].is_null()) ++measured;
      if (shown["unranked"][s][b] == reason) where.push_back(b);
    }
    if (where.empty()) continue;
    left_out.push_back(shown["series"][s]["name"].get<std::string>() +
                       (where.size() == measured
                            ? ""
                            : " (at budget " + budget_ranges(shown["budgets"], where) + ")"));
  }
  return left_out.empty() ? "" : "Not ranked, " + why + ": " + joined(left_out) + ".";
}

/// The group at the budgets only at which policies were replayed.
json where_replayed(const json& shown) {
  const auto picked = [&](const json& entries) {
    json some = json::array();
    for (const auto& b : shown["replayed"]) some.push_back(entries[b.get<std::size_t>()]);
    return some;
  };
  json some = {{"series", shown["series"]}, {"partial", shown["partial"]}, {"over", shown["over"]}};
  for (const char* key : {"budgets", "best"}) some[key] = picked(shown[key]);
  for (const char* key : {"samples", "unranked"}) {
    some[key] = json::array();
    for (const auto& one : shown[key]) some[key].push_back(picked(one));
  }
  const auto shares = shown["values"].find("share_of_optimum");
  if (shares != shown["values"].end() && shares->contains("mean")) {
    some["shares"] = json::array();
    for (const auto& one : (*shares)["mean"]) some["shares"].push_back(picked(one));
  }
  return some;
}

/// "93.1% (tova)" of a share.
std::string share_of(double share, const std::vector<std::string>& names) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f%%", 100 * share);
  return text + (" (" + joined(names) + ")");
}

/// How near policies come to the optimum, at the smallest and the largest budget: "at budget 5%
/// from 41.8% (local) to 94.4% (tova)".
std::string share_of_optimum(const json& shown) {
  if (!shown.contains("shares")) return "";
  std::vector<std::string> parts;
  for (std::size_t b = 0; b < shown["budgets"].size(); ++b) {
    std::map<double, std::vector<std::string>> by_share;
    for (std::size_t s = 0; s < shown["series"].size(); ++s) {
      const json& share = shown["shares"][s][b];
      if (share.is_null() || !shown["unranked"][s][b].is_null()) continue;
      by_share[share.get<double>()].push_back(shown["series"][s]["name"]);
    }
    if (by_share.empty()) continue;
    const auto& [least, last] = *by_share.begin();
    const auto& [most, first] = *by_share.rbegin();
    const std::size_t where[] = {b};
    std::string part = budget_ranges(shown["budgets"], where) + " ";
    if (by_share.size() > 1) part += "from " + share_of(least, last) + " to ";
    part += share_of(most, first);
    if (parts.size() == 2) parts.pop_back();
    parts.push_back(part);
  }
  if (parts.empty()) return "";
  std::string text =
      "Share of the optimum, that is of the attention which the best eviction retains";
  if (shown["partial"]) text += ", over " + shown["over"].get<std::string>() + " only";
  return text + ": at budget " + parts.front() + (parts.size() > 1 ? ", at " + parts.back() : "") +
         ".";
}

}  // namespace

void rank(json& shown) {
  const auto& values = shown["values"];
  const bool has_loss = values.contains("mass_loss") && values["mass_loss"].contains("mean");
  shown["unranked"] = all_unranked(shown);
  shown["best"] = json::array();
  for (std::size_t b = 0; b < shown["budgets"].size(); ++b) {
    shown["best"].push_back(has_loss ? best_at(shown, b)
                                     : json({{"first", json::array()}, {"second", json::array()}}));
  }
}

std::vector<std::string> ranking_sentences(const json& group) {
  const json shown = where_replayed(group);
  std::vector<std::string> sentences = {
      share_of_optimum(shown), who_is_best(shown),
      who_is_left_out(shown, "steps",
                      "as they were measured over other steps, or heads, than most policies"),
      who_is_left_out(shown, "size",
                      "as their queries see more than k + 1 tokens on average (compare them at a "
                      "smaller budget, where “visible” is equal)")};
  std::erase(sentences, std::string());
  return sentences;
}

}  // namespace kvreplay
