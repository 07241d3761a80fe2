// The files that reports/assets.cmake embeds into the program.
#pragma once

#include <string_view>

namespace kvreplay::assets {

std::string_view page();         ///< HTML with {{names}} in place of the rest
std::string_view row_study();    ///< HTML likewise: the part of one of kRowKinds
std::string_view style();        ///< CSS
std::string_view script();       ///< JavaScript that fills the page
std::string_view metrics();      ///< JSON: title, formula and meaning of each metric
std::string_view curves();       ///< Vega specification: a metric over the budget
std::string_view head_map();     ///< Vega specification: layer x head
std::string_view looks();        ///< JSON: colours, dashes and symbols of figures
std::string_view vega_notice();  ///< licence of Vega, as a JavaScript comment
std::string_view vega();         ///< JavaScript that defines `vega`
std::string_view policies();     ///< policies/README.md

}  // namespace kvreplay::assets
