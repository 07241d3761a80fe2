// Figures of findings: power law, sinks, agreement.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "reports/figures/figure.hpp"

namespace kvreplay {

/// `study` as report_studies() has them; throws as nlohmann::json does where it is not. Ids begin
/// with the trace's name and go on with powerlaw-, sinks- or agreement-.
std::vector<Figure> study_figures(const nlohmann::json& study);

}  // namespace kvreplay
