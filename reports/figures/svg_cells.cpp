#include <algorithm>
#include <cmath>

#include "reports/figures/drawing.hpp"
#include "reports/figures/looks.hpp"
#include "reports/figures/scale.hpp"
#include "reports/text_table.hpp"

namespace kvreplay::svg {

namespace {

/// As the page has it: shares in percent, which is what a cell has room for.
std::string in_cell(double value, bool percent) {
  if (!percent) return tick_text(std::stod(fixed(value, value < 10 ? 1 : 0)));
  const std::string text = fixed(100 * value, std::abs(value) < 0.0995 ? 1 : 0);
  return text == "-0.0" || text == "-0" ? text.substr(1) : text;
}

/// Black on what is light, white on what is dark.
std::string ink_on(const std::string& colour) {
  const auto channel = [&](std::size_t which) {
    return static_cast<double>(std::stoul(colour.substr(1 + 2 * which, 2), nullptr, 16)) / 255;
  };
  const double light = 0.2126 * channel(0) + 0.7152 * channel(1) + 0.0722 * channel(2);
  return light > 0.55 ? "#111111" : "#ffffff";
}

}  // namespace

double draw_cells(const FigureCells& cells, Drawing& drawing) {
  const std::size_t units = std::max<std::size_t>(1, cells.units.size());
  const double right = kWidth - 120;
  const double width =
      (right - kLeft) / static_cast<double>(std::max<std::size_t>(1, cells.layers.size()));
  const double height = std::min(26.0, 480.0 / static_cast<double>(units));
  const double bottom = kTop + height * static_cast<double>(units);
  double least = 0;
  double most = 0;
  for (const double value : cells.values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (cells.diverging) {
    most = std::max(most, -least);
    least = -most;
  }
  if (most <= least) most = least + 1;
  for (std::size_t l = 0; l < cells.layers.size(); ++l) {
    for (std::size_t u = 0; u < units; ++u) {
      const double value = cells.values[l * units + u];
      const bool known = std::isfinite(value);
      const std::string where =
          "layer " + std::to_string(cells.layers[l]) +
          (cells.units.empty() ? ""
                               : ", " + cells.unit_title + " " + std::to_string(cells.units[u]));
      drawing.rect(kLeft + static_cast<double>(l) * width, kTop + static_cast<double>(u) * height,
                   width * 0.96, height * 0.94,
                   " class=\"cell\" fill=\"" +
                       (known ? cell_colour((value - least) / (most - least), cells.diverging)
                              : std::string("#bbbbbb")) +
                       "\"",
                   where + ": " + (known ? tick_text(value) : "not known"));
      if (!known || width < 25 || height < 14) continue;
      drawing.text(
          kLeft + (static_cast<double>(l) + 0.48) * width,
          kTop + (static_cast<double>(u) + 0.47) * height + 4, in_cell(value, cells.percent),
          " class=\"number\" text-anchor=\"middle\" font-size=\"10\" fill=\"" +
              ink_on(cell_colour((value - least) / (most - least), cells.diverging)) + "\"");
    }
  }
  const std::size_t each = std::max<std::size_t>(1, (cells.layers.size() + 19) / 20);
  for (std::size_t l = 0; l < cells.layers.size(); l += each) {
    drawing.text(kLeft + (static_cast<double>(l) + 0.48) * width, bottom + 16,
                 std::to_string(cells.layers[l]), " text-anchor=\"middle\"");
  }
  const std::size_t every = std::max<std::size_t>(1, (units + 29) / 30);
  for (std::size_t u = 0; u < cells.units.size(); u += every) {
    drawing.text(kLeft - 8, kTop + (static_cast<double>(u) + 0.5) * height + 4,
                 std::to_string(cells.units[u]), " text-anchor=\"end\"");
  }
  drawing.text((kLeft + right) / 2, bottom + 36, "layer", " text-anchor=\"middle\"");
  if (!cells.units.empty()) {
    drawing.text(0, 0, cells.unit_title,
                 " text-anchor=\"middle\" transform=\"translate(18," + number((kTop + bottom) / 2) +
                     ") rotate(-90)\"");
  }
  // What the colours mean.
  constexpr int kSteps = 32;
  const double legend = std::max(100.0, bottom - kTop - 24);
  drawing.text(right + 20, kTop + 4, cells.value_title, " font-size=\"11\"");
  for (int step = 0; step < kSteps; ++step) {
    const double part = 1 - (step + 0.5) / kSteps;
    drawing.rect(right + 20, kTop + 14 + step * legend / kSteps, 14, legend / kSteps + 0.5,
                 " fill=\"" + cell_colour(part, cells.diverging) + "\"");
  }
  const Scale numbers({}, {least, most}, 0, 1);
  for (const double tick : numbers.ticks()) {
    const double part = (tick - least) / (most - least);
    if (part < 0 || part > 1) continue;
    const double up = kTop + 14 + (1 - part) * legend;
    drawing.line(right + 34, up, right + 38, up, " stroke=\"#000\"");
    drawing.text(right + 41, up + 4, tick_text(rounded(tick)), " class=\"tick\"");
  }
  return std::max(bottom + 58, kTop + legend + 40);
}

}  // namespace kvreplay::svg
