// What a report's map of layers and heads shows.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "reports/report_series.hpp"

namespace kvreplay::report {

/// `map` of a group of report_data(), with values at `budgets` only.
nlohmann::json map_of(const Group& group, std::span<const Series> series,
                      const std::set<std::uint32_t>& budgets);

}  // namespace kvreplay::report
