// Means over several traces of one model, with their intervals.
#pragma once

#include <nlohmann/json.hpp>

namespace kvreplay {

constexpr double kTraceLevel = 0.95;

/// Puts before the groups of report_data() that are of one model and scope, and measured alike, but
/// of several traces, a group of their means: each trace counts once, at the budgets and of the
/// series that all of them have. Budgets are the same where they were asked for as the same share,
/// or else as the same number of tokens; their tokens are means, rounded up. Beside the values it
/// has
///   traces     the names of the traces
///   intervals  metric -> {low, high} [series][budget] of the statistic mean: Student's t over the
///              traces, at a level of kTraceLevel
/// Groups of traces whose model is not known, or of different models, stay by themselves.
nlohmann::json with_means_over_traces(nlohmann::json groups);

}  // namespace kvreplay
