// The first tokens of the sequence, on which many heads park their attention, and the newest ones
// (Xiao et al., StreamingLLM, arXiv:2309.17453).
#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Parts parts = sinks_and_recent("sinks", arguments, setting.budget);
  return std::make_unique<Composition>(
      parts, std::make_unique<AgeRanking>(),
      Traits{.lowest_leaves = LowestLeaves{LowestLeaves::By::age, parts.sinks},
             .parameters = "sinks=" + std::to_string(parts.sinks) +
                           ":recent=" + std::to_string(parts.recent)});
}

const Registration registration({.name = "sinks",
                                 .summary = "the first tokens and a sliding window",
                                 .also_called = {"StreamingLLM", "attention sinks"},
                                 .parameters = {sinks_parameter(),
                                                recent_parameter("the rest of the budget")},
                                 .make = &make});

}  // namespace
}  // namespace kvreplay
