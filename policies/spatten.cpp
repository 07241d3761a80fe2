// SpAtten (Wang et al., arXiv:2012.09852): importance of a token is the attention it has received
// in all layers and heads, and what is pruned is pruned for all of them. One kept set for the whole
// model is ranked by raw rows accumulated over layers and heads; the lowest leaves.
#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Parts parts = ranked_and_recent("spatten", arguments, setting.budget, 0);
  return std::make_unique<Composition>(
      parts, std::make_unique<AccumulatedRanking>(),
      Traits{.rows = RowForm::raw, .parameters = "recent=" + std::to_string(parts.recent)});
}

const Registration registration(
    {.name = "spatten",
     .summary = "one set for all layers and heads: the highest attention over all (SpAtten)",
     .note = "all layers drop a token at the same step; published, a token is dropped from one "
             "layer on, and whole heads are pruned too",
     .parameters = {recent_parameter("0")},
     .needs = {Need::rows},
     .scopes = {Scope::all},
     .make = &make});

}  // namespace
}  // namespace kvreplay
