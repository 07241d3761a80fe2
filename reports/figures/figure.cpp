#include "reports/figures/figure.hpp"

#include <cmath>

#include "reports/text_table.hpp"

namespace kvreplay {
namespace {

using nlohmann::json;

json numbers(const std::vector<double>& values) {
  json list = json::array();
  for (const double value : values) {
    list.push_back(std::isfinite(value) ? json(rounded(value)) : json());
  }
  return list;
}

json to_json(const Axis& axis) {
  return {{"title", axis.title},
          {"logarithmic", axis.logarithmic},
          {"from_zero", axis.from_zero},
          {"ticks", numbers(axis.ticks)},
          {"notes", axis.notes}};
}

json to_json(const FigureSeries& series) {
  json out = {{"name", series.name},    {"look", nullptr},       {"dash", series.dash},
              {"line", series.line},    {"marks", series.marks}, {"labelled", series.labelled},
              {"x", numbers(series.x)}, {"y", numbers(series.y)}};
  if (series.look) out["look"] = *series.look;
  if (!series.low.empty()) out["low"] = numbers(series.low);
  if (!series.high.empty()) out["high"] = numbers(series.high);
  if (!series.texts.empty()) out["texts"] = series.texts;
  return out;
}

}  // namespace

json to_json(const Figure& figure) {
  json out = {{"id", figure.id},        {"title", figure.title},  {"caption", figure.caption},
              {"x", to_json(figure.x)}, {"y", to_json(figure.y)}, {"series", json::array()},
              {"cells", nullptr}};
  for (const auto& series : figure.series) out["series"].push_back(to_json(series));
  if (const auto& cells = figure.cells) {
    out["cells"] = {{"layers", cells->layers},         {"units", cells->units},
                    {"unit_title", cells->unit_title}, {"value_title", cells->value_title},
                    {"diverging", cells->diverging},   {"percent", cells->percent},
                    {"values", numbers(cells->values)}};
  }
  return out;
}

Figure figure_of(const json& figure) {
  const auto numbers_of = [](const json& of, const char* key) {
    std::vector<double> values;
    const auto list = of.find(key);
    if (list == of.end()) return values;
    for (const auto& value : *list) {
      values.push_back(value.is_null() ? kNoNumber : value.get<double>());
    }
    return values;
  };
  const auto axis_of = [&](const json& of) {
    return Axis{.title = of.at("title"),
                .logarithmic = of.at("logarithmic"),
                .from_zero = of.at("from_zero"),
                .ticks = numbers_of(of, "ticks"),
                .notes = of.at("notes")};
  };
  Figure out;
  out.id = figure.at("id");
  out.title = figure.at("title");
  out.caption = figure.at("caption");
  out.x = axis_of(figure.at("x"));
  out.y = axis_of(figure.at("y"));
  for (const auto& of : figure.at("series")) {
    FigureSeries series;
    series.name = of.at("name");
    if (!of.at("look").is_null()) series.look = of.at("look").get<std::size_t>();
    series.dash = of.at("dash");
    series.line = of.at("line");
    series.marks = of.at("marks");
    series.labelled = of.at("labelled");
    series.x = numbers_of(of, "x");
    series.y = numbers_of(of, "y");
    series.low = numbers_of(of, "low");
    series.high = numbers_of(of, "high");
    if (of.contains("texts")) series.texts = of.at("texts").get<std::vector<std::string>>();
    out.series.push_back(std::move(series));
  }
  if (const json& of = figure.at("cells"); !of.is_null()) {
    out.cells = FigureCells{.layers = of.at("layers"),
                            .units = of.at("units"),
                            .unit_title = of.at("unit_title"),
                            .value_title = of.at("value_title"),
                            .diverging = of.at("diverging"),
                            .percent = of.at("percent"),
                            .values = numbers_of(of, "values")};
  }
  return out;
}

std::string id_of(const std::string& text) {
  std::string id;
  for (const char c : text) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_';
    if (kept) {
      id += c;
    } else if (c == '%') {
      id += "pct";
    } else if (!id.empty() && id.back() != '-') {
      id += '-';
    }
  }
  while (!id.empty() && id.back() == '-') id.pop_back();
  return id;
}

}  // namespace kvreplay
