#include "reports/figures/scale.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "reports/text_table.hpp"

namespace kvreplay {
namespace {

/// 1, 2 or 5 times a power of ten, so that about `parts` of them make `span`.
double round_step(double span, int parts) {
  const double raw = span / parts;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

Scale::Scale(const Axis& axis, const std::vector<double>& values, double from, double to)
    : logarithmic_(axis.logarithmic), from_(from), to_(to) {
  std::vector<double> drawn;
  std::copy_if(values.begin(), values.end(), std::back_inserter(drawn),
               [&](double value) { return std::isfinite(value) && (!logarithmic_ || value > 0); });
  if (axis.from_zero && !logarithmic_) drawn.push_back(0);
  double least = logarithmic_ ? 0.1 : 0;
  double most = 1;
  if (!drawn.empty()) {
    least = *std::min_element(drawn.begin(), drawn.end());
    most = *std::max_element(drawn.begin(), drawn.end());
  }
  if (logarithmic_) {
    low_ = std::log10(least);
    high_ = std::log10(most);
    const double margin = high_ > low_ ? 0.03 * (high_ - low_) : 0.5;
    low_ -= margin;
    high_ += margin;
    const int each = std::max(1, static_cast<int>((high_ - low_) / 7));
    for (int power = static_cast<int>(std::floor(low_)); power <= high_; power += each) {
      // Within two decades, powers of ten alone would be few.
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double tick = factor * std::pow(10, power);
        const bool shown = factor == 1 || high_ - low_ < 2;
        if (shown && std::log10(tick) >= low_ && std::log10(tick) <= high_) ticks_.push_back(tick);
      }
    }
    if (!axis.ticks.empty()) ticks_ = axis.ticks;
    return;
  }
  if (most <= least) most = least + (least == 0 ? 1 : std::abs(least));
  const double step = round_step(most - least, 6);
  low_ = std::floor(least / step + 1e-9) * step;
  high_ = std::ceil(most / step - 1e-9) * step;
  const auto count = static_cast<int>(std::lround((high_ - low_) / step));
  for (int i = 0; i <= count; ++i) {
    const double tick = low_ + i * step;
    ticks_.push_back(std::abs(tick) < step * 1e-9 ? 0 : tick);
  }
  if (!axis.ticks.empty()) ticks_ = axis.ticks;
}

double Scale::along(double value) const {
  return ((logarithmic_ ? std::log10(value) : value) - low_) / (high_ - low_);
}

std::optional<double> Scale::operator()(double value) const {
  if (!std::isfinite(value) || (logarithmic_ && value <= 0)) return std::nullopt;
  return from_ + along(value) * (to_ - from_);
}

std::vector<double> along_x(const Figure& figure) {
  std::vector<double> values;
  for (const auto& series : figure.series) {
    values.insert(values.end(), series.x.begin(), series.x.end());
  }
  return values;
}

std::vector<double> along_y(const Figure& figure) {
  std::vector<double> values;
  for (const auto& series : figure.series) {
    for (const auto* list : {&series.y, &series.low, &series.high}) {
      values.insert(values.end(), list->begin(), list->end());
    }
  }
  return values;
}

Figure with_ticks(Figure figure) {
  if (figure.cells) return figure;
  figure.x.ticks = Scale(figure.x, along_x(figure), 0, 1).ticks();
  figure.y.ticks = Scale(figure.y, along_y(figure), 0, 1).ticks();
  return figure;
}

std::string tick_text(double value) {
  const double size = std::abs(value);
  if (size >= 1000 && size < 1e7 && value == std::floor(value)) {
    return (value < 0 ? "-" : "") + grouped(static_cast<std::uint64_t>(size));
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  std::string out = text;
  // "1e-06" as "1e-6"
  if (const auto e = out.find('e'); e != std::string::npos && out[e + 2] == '0')
    out.erase(e + 2, 1);
  return out;
}

}  // namespace kvreplay
