// Where numbers lie on an axis, and which of them it names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/figures/figure.hpp"

namespace kvreplay {

/// From numbers to places between `from` and `to`.
class Scale {
 public:
  /// Widens the span of `values` to round numbers, or a little on a logarithmic axis; places `from`
  /// and `to` are in the unit of the drawing. Values that are no numbers, or not on a logarithmic
  /// axis, do not count.
  Scale(const Axis& axis, const std::vector<double>& values, double from, double to);

  /// None: not on this axis.
  std::optional<double> operator()(double value) const;
  /// Those of the axis, else round numbers, ascending.
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  double along(double value) const;

  bool logarithmic_;
  double from_;
  double to_;
  double low_ = 0;
  double high_ = 1;
  std::vector<double> ticks_;
};

/// All numbers that a figure has along an axis.
std::vector<double> along_x(const Figure& figure);
std::vector<double> along_y(const Figure& figure);

/// In at most four digits: "0.05", "1,024", "1e-6".
std::string tick_text(double value);

}  // namespace kvreplay
