// The form that analyses give the files of their findings, which `kvreplay report` reads.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/plan.hpp"
#include "traces/trace.hpp"

namespace kvreplay {

constexpr int kFindingsSchema = 1;

/// What every findings file begins with; the analysis adds its own data.
///   findings  `kind`: "powerlaw", "agreement", "sinks", "claims", or one of kRowKinds
///   schema    kFindingsSchema
///   trace     as in the manifest of results: file, model, model_sha256, prompt_sha256, source,
///             tokens, prompt_tokens, layers, heads (looked at, model indices), model_layers,
///             model_heads, kv_heads, rows_xxh3 (of equal rows equal; empty: not known)
///   manifest  tool, command: `options` as on a command line
nlohmann::ordered_json findings_head(std::string_view kind, const TraceInfo& info,
                                     const ReplayPlan& plan, std::string_view rows_xxh3,
                                     const std::vector<std::string>& options);

/// JSON to be read by people too: indented, lists of plain values on one line, ends in a line feed.
/// Values as json_text() writes them.
std::string readable_json(const nlohmann::ordered_json& value);

}  // namespace kvreplay
