// All figures of a report, for files.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "reports/figures/figure.hpp"

namespace kvreplay {

/// `data` as of report_data(). No two have the same id.
std::vector<Figure> report_figures(const nlohmann::json& data);

}  // namespace kvreplay
