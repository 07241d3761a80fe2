// Figures as the commands that claims name print them.
#pragma once

#include <sstream>
#include <string>

#include "reports/text_table.hpp"

namespace kvreplay::claims {

inline std::string percent(double share) {
  return fixed(100 * share, 2) + " %";
}

/// Of differences of what percent() shows, which are in percentage points.
inline std::string points(double share) {
  return fixed(100 * share, 2);
}

inline std::string whole(double value) {
  return fixed(value, 0);
}

inline std::string two_digits(double value) {
  return fixed(value, 2);
}

inline std::string three_digits(double value) {
  return fixed(value, 3);
}

inline std::string four_digits(double value) {
  return fixed(value, 4);
}

/// "50.1", as analyze theory prints it.
inline std::string three_figures(double value) {
  std::ostringstream text;
  text.precision(3);
  text << value;
  return text.str();
}

}  // namespace kvreplay::claims
