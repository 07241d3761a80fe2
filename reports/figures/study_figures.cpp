#include "reports/figures/study_figures.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "reports/row_kinds.hpp"
#include "reports/text_table.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;

double number(const json& value) {
  return value.is_null() ? kNoNumber : value.get<double>();
}

std::vector<double> numbers(const json& list) {
  std::vector<double> values;
  for (const auto& value : list) values.push_back(number(value));
  return values;
}

/// `kind` of findings: they can be of other heads than those of another kind.
std::string of_what(const json& study, const char* kind) {
  const auto model = study.at("model").get<std::string>();
  const auto only = study.at(kind).at("only").get<std::string>();
  return model + (model.empty() ? "" : ", ") + study.at("trace").get<std::string>() + ", " +
         counted(study.at("tokens").get<std::uint64_t>(), "token") +
         (only.empty() ? "" : ", " + only + " only") + ". ";
}

std::string id_start(const json& study) {
  return id_of(study.at("trace").get<std::string>()) + "-";
}

/// The map of `heads`, each with layer and head, of value(head).
Figure map_of_heads(const json& heads, const std::string& value_title,
                    const std::function<double(const json&)>& value) {
  std::set<std::uint32_t> layers;
  std::set<std::uint32_t> units;
  for (const auto& head : heads) {
    layers.insert(head.at("layer").get<std::uint32_t>());
    units.insert(head.at("head").get<std::uint32_t>());
  }
  FigureCells cells;
  cells.layers.assign(layers.begin(), layers.end());
  cells.units.assign(units.begin(), units.end());
  cells.unit_title = "query head";
  cells.value_title = value_title;
  cells.values.assign(layers.size() * units.size(), kNoNumber);
  const auto place = [](const std::set<std::uint32_t>& of, const json& which) {
    return static_cast<std::size_t>(std::distance(of.begin(), of.find(which.get<std::uint32_t>())));
  };
  for (const auto& head : heads) {
    cells.values[place(layers, head.at("layer")) * units.size() + place(units, head.at("head"))] =
        value(head);
  }
  Figure figure;
  figure.cells = std::move(cells);
  return figure;
}

json heads_with(const json& places, const std::string& scores) {
  json heads = json::array();
  for (const auto& place : places) {
    if (!place.at("head").is_null() && place.at("fits").contains(scores)) heads.push_back(place);
  }
  return heads;
}

/// The fitted power law over the tail, share of the tail times (x / xmin)^(1 - alpha), as far as
/// `most` or to where it says half a token.
FigureSeries fitted(const json& fit, double most) {
  FigureSeries line;
  line.name = "power law, alpha " + fixed(fit.at("alpha").get<double>(), 2);
  line.dash = 1;
  line.marks = false;
  const double xmin = fit.at("xmin").get<double>();
  const double tail = fit.at("n_tail").get<double>() / fit.at("n_used").get<double>();
  const double slope = 1 - fit.at("alpha").get<double>();
  const double least = 0.5 / fit.at("n_used").get<double>();
  const double end = xmin * std::pow(least / tail, 1 / slope);
  for (const double x : {xmin, std::max(std::min(most, end), xmin)}) {
    line.x.push_back(x);
    line.y.push_back(tail * std::pow(x / xmin, slope));
  }
  return line;
}

FigureSeries distribution(const json& fit, const std::string& name, std::size_t look) {
  FigureSeries series;
  series.name = name;
  series.look = look;
  series.line = false;
  series.x = numbers(fit.at("x"));
  series.y = numbers(fit.at("share"));
  return series;
}

Figure ccdf(const json& study, const json& place) {
  const json& fit = place.at("fits").at("accumulated");
  Figure figure;
  figure.id = id_start(study) + "powerlaw-ccdf";
  const std::string head =
      "layer " + place.at("layer").dump() + ", head " + place.at("head").dump();
  figure.title = "Accumulated attention of " + head;
  figure.caption = of_what(study, "powerlaw") +
                   "Share of the tokens that got x or more, on logarithmic axes, with the fitted "
                   "power law, in " +
                   head +
                   ": of the heads that have enough data in the tail, "
                   "if any, the one with the median KS distance. " +
                   fit.at("in_words").get<std::string>() + ". " +
                   study.at("powerlaw").at("caveat").get<std::string>();
  figure.x = {.title = "accumulated attention x", .logarithmic = true};
  figure.y = {.title = "share of tokens with x or more", .logarithmic = true};
  figure.series.push_back(distribution(fit, "accumulated", 0));
  const auto& fits = place.at("fits");
  if (fits.contains("null")) {
    figure.series.push_back(distribution(fits.at("null"), "rows in random order", 1));
  }
  if (!fit.at("alpha").is_null()) {
    figure.series.push_back(fitted(fit, figure.series.front().x.back()));
  }
  return figure;
}

/// The head whose fit is the median one by KS distance, of those with data enough for a verdict
/// where there are such.
json typical(const json& heads) {
  const auto fit = [](const json& head) -> const json& {
    return head.at("fits").at("accumulated");
  };
  auto by_ks = heads.get<std::vector<json>>();
  const auto judged = std::stable_partition(by_ks.begin(), by_ks.end(), [&](const json& head) {
    return fit(head).at("verdict") != "too little tail data";
  });
  if (judged != by_ks.begin()) by_ks.erase(judged, by_ks.end());
  std::stable_sort(by_ks.begin(), by_ks.end(), [&](const json& one, const json& other) {
    return fit(one).at("ks").get<double>() < fit(other).at("ks").get<double>();
  });
  return by_ks[(by_ks.size() - 1) / 2];
}

void add_powerlaw(const json& study, std::vector<Figure>& figures) {
  json heads = heads_with(study.at("powerlaw").at("places"), "accumulated");
  std::erase_if(heads.get_ref<json::array_t&>(), [](const json& place) {
    const json& fit = place.at("fits").at("accumulated");
    return fit.at("ks").is_null() || fit.at("x").empty();
  });
  if (heads.empty()) return;
  figures.push_back(ccdf(study, typical(heads)));
  Figure map = map_of_heads(heads, "alpha", [](const json& place) {
    return number(place.at("fits").at("accumulated").at("alpha"));
  });
  map.id = id_start(study) + "powerlaw-alpha";
  map.title = "Exponent of the power law by layer and head";
  map.caption = of_what(study, "powerlaw") +
                "Fitted to the tail of the attention that tokens accumulated, " +
                "whether or not a power law is supported there.";
  figures.push_back(std::move(map));
}

void add_sinks(const json& study, std::vector<Figure>& figures) {
  const json& sinks = study.at("sinks");
  Figure map = map_of_heads(sinks.at("heads"), "share",
                            [](const json& head) { return number(head.at("first_mean")); });
  map.cells->percent = true;
  map.id = id_start(study) + "sinks-map";
  map.title = "Attention on the first token by layer and head";
  map.caption = of_what(study, "sinks") + "Mean of p_i0 over the rows i from 1 on; above " +
                fixed(sinks.at("epsilon").get<double>(), 2) + " a head is a sink head." +
                kCellsShowPercent;
  figures.push_back(std::move(map));

  constexpr std::size_t kLabels = 14;
  const json& tokens = sinks.at("tokens");
  Figure figure;
  figure.id = id_start(study) + "sinks-tokens";
  figure.title = "Attention by position and text of tokens";
  figure.caption =
      of_what(study, "sinks") +
      "Share of all attention that a token gets, mean over heads, of all rows, also of row "
      "0, which gives the first token all; its mean share on the map is of the rows "
      "behind. The heaviest have their text beside them. Grey: what rows of even weights would "
      "give.";
  figure.x.title = "position of the token";
  figure.y = {.title = "share of all attention", .logarithmic = true};
  FigureSeries mass;
  mass.name = "recorded rows";
  mass.look = 0;
  mass.line = false;
  FigureSeries even;
  even.name = "even rows";
  even.dash = 1;
  even.marks = false;
  for (std::size_t at = 0; at < tokens.at("position").size(); ++at) {
    mass.x.push_back(number(tokens.at("position").at(at)));
    mass.y.push_back(number(tokens.at("mass").at(at)));
    even.y.push_back(number(tokens.at("even_mass").at(at)));
    if (tokens.at("text").empty()) continue;
    mass.texts.push_back("“" + tokens.at("text").at(at).get<std::string>() + "”");
  }
  even.x = mass.x;
  if (!mass.texts.empty()) mass.labelled = kLabels;
  figure.series = {std::move(mass), std::move(even)};
  figures.push_back(std::move(figure));
}

/// Over the steps, with the quantiles over heads as a band.
FigureSeries curve(const json& agreement, const json& of, const std::string& name, bool chance,
                   std::size_t look) {
  FigureSeries series;
  series.name = name;
  if (!chance) series.look = look;
  series.dash = chance ? look + 1 : 0;
  series.marks = false;
  for (std::size_t at = 0; at < agreement.at("steps").size(); ++at) {
    series.x.push_back(number(agreement.at("steps").at(at)));
    series.y.push_back(number(of.at("mean").at(at)));
    if (chance) continue;
    series.low.push_back(number(of.at("p5").at(at)));
    series.high.push_back(number(of.at("p95").at(at)));
  }
  return series;
}

/// Of raw scores; `budget` null: of the order of all tokens.
Figure of_measure(const json& study, const std::string& measure, const std::string& in_words,
                  const json& budget) {
  const json& agreement = study.at("agreement");
  std::string at_budget;
  if (!budget.is_null()) {
    at_budget =
        agreement.at("budgets").at(budget.get<std::size_t>()).at("budget").get<std::string>();
  }
  Figure figure;
  figure.id =
      id_start(study) + "agreement-" + measure + (at_budget.empty() ? "" : "-" + id_of(at_budget));
  figure.title = "Local scores against what is to come: " + in_words +
                 (at_budget.empty() ? "" : ", budget " + at_budget);
  figure.caption =
      of_what(study, "agreement") +
      "Local: what a token has got by a step. Future: what later rows give it. Global: "
      "what all rows give it, which holds the local score. Mean over heads, bands from "
      "their 5 % to their 95 % quantile. Grey: chance, with what later rows give in "
      "random order over the tokens.";
  figure.x.title = "step";
  figure.y = {.title = in_words, .from_zero = true};
  const auto add = [&](const std::string& against, const std::string& name, bool chance,
                       std::size_t look) {
    for (const auto& of : agreement.at("curves")) {
      if (of.at("scores") == "raw" && of.at("measure") == measure && of.at("against") == against &&
          of.at("budget") == budget) {
        figure.series.push_back(curve(agreement, of, name, chance, look));
      }
    }
  };
  add("future", "future", false, 0);
  add("global", "global", false, 1);
  add("future-null", "future, by chance", true, 0);
  add("global-null", "global, by chance", true, 1);
  return figure;
}

void add_agreement(const json& study, std::vector<Figure>& figures) {
  const json& agreement = study.at("agreement");
  Figure losses;
  losses.id = id_start(study) + "agreement-extra-loss";
  losses.title = "What h2o loses beyond h2o-global along the text";
  losses.caption = of_what(study, "agreement") +
                   "Mean attention-mass loss of h2o less that of the same policy ranked by "
                   "whole-sequence sums, over segments of rows; where a curve is high, local "
                   "scores mislead.";
  losses.x.title = "step";
  losses.y = {.title = "extra loss", .from_zero = true};
  for (std::size_t budget = 0; budget < agreement.at("budgets").size(); ++budget) {
    figures.push_back(of_measure(study, "overlap", "overlap of the k best tokens", budget));
    const json& of = agreement.at("budgets").at(budget);
    FigureSeries series;
    series.name = "budget " + of.at("budget").get<std::string>();
    series.look = budget;
    for (std::size_t at = 0; at < agreement.at("segment_ends").size(); ++at) {
      series.x.push_back(number(agreement.at("segment_ends").at(at)));
      series.y.push_back(number(of.at("extra_loss").at(at)));
    }
    losses.series.push_back(std::move(series));
  }
  if (losses.series.empty()) return;
  figures.push_back(of_measure(study, "spearman", "Spearman correlation of ranks", nullptr));
  figures.push_back(of_measure(study, "kendall_tau_b", "Kendall's tau-b", nullptr));
  figures.push_back(of_measure(study, "rbo", "rank-biased overlap", nullptr));
  figures.push_back(std::move(losses));
  Figure map = map_of_heads(agreement.at("heads"), "extra loss",
                            [](const json& head) { return number(head.at("extra").at(0)); });
  map.cells->diverging = true;
  map.cells->percent = true;
  map.id = id_start(study) + "agreement-heads";
  map.title = "What h2o loses beyond h2o-global by layer and head, budget " +
              agreement.at("budgets").at(0).at("budget").get<std::string>();
  map.caption = of_what(study, "agreement") + "Mean over the rows that find the cache full." +
                kCellsShowPercent;
  figures.push_back(std::move(map));
}

void add_row_study(const json& study, const RowKind& of, std::vector<Figure>& figures) {
  const std::string kind(of.kind);
  const json& found = study.at(kind);
  if (found.at("columns").empty()) return;
  const auto shown = found.at("columns").at(0).get<std::string>();
  Figure map = map_of_heads(found.at("heads"), shown,
                            [](const json& head) { return number(head.at("values").at(0)); });
  map.cells->percent = of.shares;
  map.id = id_start(study) + kind + "-map";
  map.title = std::string(of.heading) + " by layer and head: " + shown;
  map.caption = of_what(study, kind.c_str()) +
                "What was looked at: " + found.at("definition").get<std::string>() + "." +
                (of.shares ? kCellsShowPercent : "");
  figures.push_back(std::move(map));
}

}  // namespace

std::vector<Figure> study_figures(const json& study) {
  std::vector<Figure> figures;
  if (study.contains("agreement")) add_agreement(study, figures);
  if (study.contains("sinks")) add_sinks(study, figures);
  if (study.contains("powerlaw")) add_powerlaw(study, figures);
  for (const auto& of : kRowKinds) {
    if (study.contains(std::string(of.kind))) add_row_study(study, of, figures);
  }
  return figures;
}

}  // namespace kvreplay
