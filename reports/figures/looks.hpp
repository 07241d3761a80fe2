// The colours, dashes and symbols of reports/charts/looks.json.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "reports/figures/figure.hpp"

namespace kvreplay {

std::string colour_of(const FigureSeries& series);
/// "7 3"; empty: unbroken.
std::string dashes_of(const FigureSeries& series);
/// "circle", "triangle-up"
std::string shape_of(const FigureSeries& series);
/// Number of the dashes of a bound, "optimum", of which kind there were so many before.
std::size_t dash_of_bound(const std::string& bound, std::size_t before);
/// What is said of a bound behind its name, " (best eviction)"; empty: nothing.
std::string bound_note(const std::string& name);
/// Of a value between 0 and 1, "#440154".
std::string cell_colour(double part, bool diverging);

}  // namespace kvreplay
