// Which layers, heads and rows results are of, where the replay was interrupted or the trace holds
// some of its rows only.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "traces/trace.hpp"

namespace kvreplay {

struct Coverage {
  bool partial = false;
  std::string over;  ///< "the replayed layers and heads", "the 12 of 270 heads that are done"
  bool operator==(const Coverage&) const = default;
};

/// The layers and heads of a trace's entry in a manifest or in findings, where they are not all of
/// the model's: "layers 0-3 of 30, heads 0,4 of 9"; empty: all, or the entry does not say.
std::string some_heads(const nlohmann::json& entry);

/// The rows that the trace of a manifest's entry holds.
RowSampling sampling_of(const nlohmann::json& entry);

/// Of one trace in a results file; `partial`: the file's replay was interrupted.
Coverage coverage_of(const nlohmann::json& manifest, bool partial, std::string_view trace);

/// Of several files that share a chart.
Coverage merged(std::span<const Coverage> coverages);

/// What an interrupted replay has done of its traces: "12 of 270 heads are done: layer 0, heads 0-2
/// of layer 1".
std::string what_is_done(const nlohmann::json& manifest);

}  // namespace kvreplay
