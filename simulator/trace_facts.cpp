#include "simulator/trace_facts.hpp"

#include <set>

namespace kvreplay {

nlohmann::ordered_json trace_facts(const TraceInfo& info, const ReplayPlan& plan) {
  std::set<std::uint32_t> layers;
  std::set<std::uint32_t> heads;
  for (const auto& unit : plan.units) {
    layers.insert(unit.layer_names.begin(), unit.layer_names.end());
    heads.insert(unit.head_names.begin(), unit.head_names.end());
  }
  return {{"file", plan.trace},
          {"model", info.model_name},
          {"model_sha256", info.model_sha256},
          {"prompt_sha256", info.prompt_sha256},
          {"source", info.source},
          {"tokens", info.tokens},
          {"prompt_tokens", plan.prompt_tokens},
          {"layers", layers},
          {"heads", heads},
          {"model_layers", info.model_layers},
          {"model_heads", info.model_heads},
          {"kv_heads", info.kv_heads}};
}

}  // namespace kvreplay
