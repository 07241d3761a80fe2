#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "reports/figures/drawing.hpp"
#include "reports/figures/looks.hpp"
#include "reports/figures/scale.hpp"

namespace kvreplay::svg {
namespace {

constexpr double kPlotHeight = 360;
constexpr double kLegend = 226;
constexpr double kRow = 19;          // of the legend
constexpr std::size_t kCrowd = 200;  // points of a series, which are then small

void draw_series(const FigureSeries& series, const Scale& x, const Scale& y, Drawing& drawing) {
  const std::string colour = colour_of(series);
  std::string upper;
  std::string lower;
  std::string line;
  std::string marks;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const auto across = x(series.x[i]);
    if (!across) continue;
    if (!series.low.empty() && !series.high.empty()) {
      const auto low = y(series.low[i]);
      const auto high = y(series.high[i]);
      if (low && high) {
        upper += (upper.empty() ? "M" : "L") + at(*across, *high);
        lower.insert(0, "L" + at(*across, *low));
      }
    }
    const auto up = y(series.y[i]);
    if (!up) continue;
    line += (line.empty() ? "M" : "L") + at(*across, *up);
    if (series.marks) {
      marks += symbol(shape_of(series), *across, *up, series.x.size() > kCrowd ? 1.4 : 3.6);
    }
  }
  if (!upper.empty()) {
    drawing.path(upper + lower + "Z",
                 " class=\"band\" fill=\"" + colour + "\" fill-opacity=\"0.16\"");
  }
  if (series.line && !line.empty()) {
    const std::string dashes = dashes_of(series);
    drawing.path(line, " class=\"line\" fill=\"none\" stroke=\"" + colour +
                           "\" stroke-width=\"1.8\" stroke-linejoin=\"round\"" +
                           (dashes.empty() ? "" : " stroke-dasharray=\"" + dashes + "\""));
  }
  if (!marks.empty()) drawing.path(marks, " class=\"point\" fill=\"" + colour + "\"");
}

/// The highest points' texts, those first that are highest, where they lie over none before.
void label(const FigureSeries& series, const Scale& x, const Scale& y, Drawing& drawing) {
  std::vector<std::size_t> order(series.texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return series.y[a] > series.y[b]; });
  order.resize(std::min(order.size(), series.labelled));
  std::vector<std::pair<double, double>> taken;
  for (const auto i : order) {
    const auto across = x(series.x[i]);
    const auto up = y(series.y[i]);
    if (!across || !up) continue;
    const bool free = std::none_of(taken.begin(), taken.end(), [&](const auto& other) {
      return std::abs(other.first - *across) < 70 && std::abs(other.second - *up) < 12;
    });
    if (!free) continue;
    taken.emplace_back(*across, *up);
    drawing.text(*across + 7, *up + 4, series.texts[i], " class=\"label\" font-size=\"11\"");
  }
}

void draw_axes(const Figure& figure, const Scale& x, const Scale& y, double right, double bottom,
               Drawing& drawing) {
  for (const double tick : y.ticks()) {
    const double up = y(tick).value();
    drawing.line(kLeft, up, right, up, " stroke=\"#000\" stroke-opacity=\"0.12\"");
    drawing.text(kLeft - 8, up + 4, tick_text(tick), " text-anchor=\"end\"");
  }
  double taken = 0;  // what is written left of here
  for (std::size_t i = 0; i < x.ticks().size(); ++i) {
    const double tick = x.ticks()[i];
    const double across = x(tick).value();
    drawing.line(across, bottom, across, bottom + 5, " stroke=\"#000\"");
    const std::string note = i < figure.x.notes.size() ? figure.x.notes[i] : "";
    const std::string text = tick_text(tick);
    const double half = 3.6 * static_cast<double>(std::max(text.size(), note.size()));
    if (across - half < taken) continue;
    taken = across + half + 4;
    drawing.text(across, bottom + 19, text, " text-anchor=\"middle\"");
    if (!note.empty()) drawing.text(across, bottom + 33, note, " text-anchor=\"middle\"");
  }
  drawing.line(kLeft, bottom, right, bottom, " stroke=\"#000\"");
  drawing.line(kLeft, kTop, kLeft, bottom, " stroke=\"#000\"");
  drawing.text((kLeft + right) / 2, bottom + (figure.x.notes.empty() ? 40 : 52), figure.x.title,
               " text-anchor=\"middle\"");
  drawing.text(0, 0, figure.y.title,
               " text-anchor=\"middle\" transform=\"translate(18," + number((kTop + bottom) / 2) +
                   ") rotate(-90)\"");
}

}  // namespace

double draw_lines(const Figure& figure, Drawing& drawing) {
  const double right = kWidth - kLegend - 14;
  const double bottom =
      kTop + std::max(kPlotHeight, kRow * static_cast<double>(figure.series.size()));
  const Scale x(figure.x, along_x(figure), kLeft, right);
  const Scale y(figure.y, along_y(figure), bottom, kTop);
  draw_axes(figure, x, y, right, bottom, drawing);
  for (const auto& series : figure.series) draw_series(series, x, y, drawing);
  for (const auto& series : figure.series) label(series, x, y, drawing);
  double row = kTop + 6;
  for (const auto& series : figure.series) {
    const std::string colour = colour_of(series);
    const std::string dashes = dashes_of(series);
    if (series.line) {
      drawing.line(right + 18, row, right + 46, row,
                   " stroke=\"" + colour + "\" stroke-width=\"1.8\"" +
                       (dashes.empty() ? "" : " stroke-dasharray=\"" + dashes + "\""));
    }
    if (series.marks) {
      drawing.path(symbol(shape_of(series), right + 32, row), " fill=\"" + colour + "\"");
    }
    drawing.text(right + 52, row + 4, series.name, " class=\"name\"");
    row += kRow;
  }
  return bottom + (figure.x.notes.empty() ? 62 : 74);
}

}  // namespace kvreplay::svg
