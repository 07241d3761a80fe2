// Figures of results: what report_data() holds of one trace and scope.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "reports/figures/figure.hpp"

namespace kvreplay {

/// The mean of every metric over the budget, with the intervals over traces where there are some;
/// the best policy's loss by layer and head at the smallest budget, less that of the optimum where
/// it is known; and how regrets and ages are spread there. `group` as report_data() has them.
std::vector<Figure> result_figures(const nlohmann::json& group);

}  // namespace kvreplay
