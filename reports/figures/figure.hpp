// A figure as data: what the page draws with Vega and `--svg` writes as a file, so that the two
// cannot disagree.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kvreplay {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

struct Axis {
  std::string title;
  bool logarithmic = false;  ///< points at or below 0 are not drawn
  bool from_zero = false;
  std::vector<double> ticks = {};       ///< which numbers it names; empty: round ones
  std::vector<std::string> notes = {};  ///< below each of them, or none
};

/// One line, or points; all lists are as long as x, or empty.
struct FigureSeries {
  std::string name;
  std::optional<std::size_t> look;  ///< number of its colour and symbol; none: grey
  std::size_t dash = 0;             ///< number of its dashes; 0: an unbroken line
  bool line = true;
  bool marks = true;
  std::vector<double> x;
  std::vector<double> y;    ///< kNoNumber: none
  std::vector<double> low;  ///< of a band around the line
  std::vector<double> high;
  std::vector<std::string> texts;  ///< said of each point
  std::size_t labelled = 0;        ///< so many points, the highest, have their text beside them
};

/// One cell a layer and head.
struct FigureCells {
  std::vector<std::uint32_t> layers;
  std::vector<std::uint32_t> units;  ///< heads or KV groups; empty: one for the layer
  std::string unit_title;
  std::string value_title;
  bool diverging = false;      ///< a difference: the colours' middle is 0
  bool percent = false;        ///< of shares: those written into cells are in percent
  std::vector<double> values;  ///< layer after layer; kNoNumber: none
};

/// For the caption of cells with `percent`.
constexpr const char* kCellsShowPercent = " Where there is room, cells show percent.";

struct Figure {
  std::string id;  ///< of letters, digits, dots and dashes: a file's name
  std::string title;
  std::string caption;  ///< what is drawn, in sentences
  Axis x;
  Axis y;
  std::vector<FigureSeries> series;
  std::optional<FigureCells> cells;  ///< instead of axes and series
};

/// With the ticks that its axes have where none are said: for the page, whose axes then have those
/// of a file. Where numbers would lie over each other, either leaves out some in its own way.
Figure with_ticks(Figure figure);

/// With the names of the members; numbers to five digits, null where there is none.
nlohmann::json to_json(const Figure& figure);
/// The other way; throws as nlohmann::json does.
Figure figure_of(const nlohmann::json& figure);

/// `text` as part of an id: other characters become dashes.
std::string id_of(const std::string& text);

}  // namespace kvreplay
