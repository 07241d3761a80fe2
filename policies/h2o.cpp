// H2O as deployed (Zhang et al., arXiv:2306.14048): the tokens with the highest accumulated
// attention and the newest ones, in disjoint shares of the budget. With recent=0 the newcomer
// competes at once; with heavy=0 it is a sliding window. The options of the score are the readings
// of it that are in use; see policies/score.hpp.
#include "policies/parts.hpp"

namespace kvreplay {
namespace {

Ranked heavy(std::string_view policy, const Arguments& arguments, const Setting& setting) {
  return ranked_by_score(policy, arguments, setting);
}

const PartRegistration part({.name = "heavy",
                             .meaning = "the tokens with the highest accumulated attention",
                             .parameters = score_parameters(),
                             .needs = {Need::rows},
                             .make = &heavy});

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  return heavy_policy("h2o", arguments, setting);
}

const Registration registration(
    {.name = "h2o",
     .summary = "the highest accumulated attention and a sliding window (H2O as deployed)",
     .also_called = {"heavy hitter oracle"},
     .parameters = heavy_policy_parameters(),
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
