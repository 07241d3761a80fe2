// What files of results and of findings say of the trace that they come of.
#pragma once

#include <nlohmann/json.hpp>

#include "simulator/plan.hpp"
#include "traces/trace.hpp"

namespace kvreplay {

/// file, model, model_sha256, prompt_sha256, source, tokens, prompt_tokens, layers, heads (looked
/// at, model indices), model_layers, model_heads, kv_heads.
nlohmann::ordered_json trace_facts(const TraceInfo& info, const ReplayPlan& plan);

}  // namespace kvreplay
