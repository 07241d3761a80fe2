// H2O as the worked example in its paper draws it: query i sees S_{i-1} and itself, everybody's
// score grows by that row, and the lowest score leaves, the newcomer's included.
#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  return composed({.ranked = setting.budget.tokens},
                  ranked_by_score("h2o-figure", arguments, setting), "", evict_argument(arguments));
}

std::vector<Parameter> parameters() {
  auto all = score_parameters();
  all.push_back(evict_parameter());
  return all;
}

const Registration registration(
    {.name = "h2o-figure",
     .summary = "the highest accumulated attention, no window (the example in H2O's paper)",
     .parameters = parameters(),
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
