// H2O as deployed (Zhang et al., arXiv:2306.14048): the tokens with the highest accumulated
// attention and the newest ones, in disjoint shares of the budget. With recent=0 the newcomer
// competes at once; with heavy=0 it is a sliding window.
#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  return heavy_and_recent_policy("h2o", arguments, setting.budget,
                                 std::make_unique<AccumulatedRanking>());
}

const Registration registration(
    {.name = "h2o",
     .summary = "the highest accumulated attention and a sliding window (H2O as deployed)",
     .parameters = {heavy_parameter(), recent_parameter("what heavy leaves"), rows_parameter()},
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
