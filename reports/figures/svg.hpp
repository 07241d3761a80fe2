// Figures as SVG files for papers, drawn without a browser.
#pragma once

#include <string>

#include "reports/figures/figure.hpp"

namespace kvreplay {

/// One SVG 1.1 document on white, with a title and a description. Lines are <path class="line">,
/// bands <path class="band">, points <path class="point">, cells <rect class="cell">.
std::string svg_of(const Figure& figure);

}  // namespace kvreplay
