#include "reports/figures/looks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "reports/assets.hpp"

namespace kvreplay {
namespace {

const nlohmann::json& looks() {
  static const nlohmann::json parsed = nlohmann::json::parse(assets::looks());
  return parsed;
}

}  // namespace

std::string colour_of(const FigureSeries& series) {
  const auto& colours = looks().at("colours");
  return series.look ? colours[*series.look % colours.size()] : looks().at("grey");
}

std::string dashes_of(const FigureSeries& series) {
  const auto& dashes = looks().at("dashes");
  std::string text;
  for (const auto& dash : dashes[series.dash % dashes.size()]) {
    text += (text.empty() ? "" : " ") + std::to_string(dash.get<int>());
  }
  return text;
}

std::string shape_of(const FigureSeries& series) {
  const auto& shapes = looks().at("shapes");
  return series.look ? shapes[*series.look % shapes.size()] : shapes[0];
}

std::size_t dash_of_bound(const std::string& bound, std::size_t before) {
  const auto& dashes = looks().at("bounds").at(bound);
  return dashes[before % dashes.size()];
}

std::string bound_note(const std::string& name) {
  return looks().at("bound_names").value(name, "");
}

std::string cell_colour(double part, bool diverging) {
  const auto& stops = looks().at(diverging ? "diverging" : "viridis");
  const double at = std::clamp(part, 0.0, 1.0) * static_cast<double>(stops.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(at), stops.size() - 2);
  const double rest = at - static_cast<double>(below);
  const auto channel = [&](std::size_t stop, std::size_t which) {
    const auto hex = stops[stop].get<std::string>().substr(1 + 2 * which, 2);
    return static_cast<double>(std::strtol(hex.c_str(), nullptr, 16));
  };
  std::string colour = "#";
  for (std::size_t which = 0; which < 3; ++which) {
    const double mixed = channel(below, which) * (1 - rest) + channel(below + 1, which) * rest;
    char hex[8];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned>(std::lround(mixed)));
    colour += hex;
  }
  return colour;
}

}  // namespace kvreplay
