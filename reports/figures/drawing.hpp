// Elements of an SVG file.
#pragma once

#include <string>

#include "reports/figures/figure.hpp"

namespace kvreplay::svg {

// In px.
constexpr double kWidth = 760;
constexpr double kLeft = 76;  ///< of the axes or cells
constexpr double kTop = 52;

/// To two decimals, in the fewest digits.
std::string number(double value);
/// "12.5,7"
std::string at(double x, double y);
/// A closed path around (x, y) of about that radius; `shape` as in looks.json.
std::string symbol(const std::string& shape, double x, double y, double radius = 3.6);
/// printable() for XML's content and quoted attributes.
std::string xml_text(const std::string& text);

/// Elements one after the other; attributes begin with a blank.
class Drawing {
 public:
  void text(double x, double y, const std::string& words, const std::string& attributes = "");
  void line(double x1, double y1, double x2, double y2, const std::string& attributes);
  /// `title`: shown where it is pointed at.
  void rect(double x, double y, double width, double height, const std::string& attributes,
            const std::string& title = "");
  void path(const std::string& d, const std::string& attributes);
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

/// Both return how high the drawing has become.
double draw_lines(const Figure& figure, Drawing& drawing);
double draw_cells(const FigureCells& cells, Drawing& drawing);

}  // namespace kvreplay::svg
