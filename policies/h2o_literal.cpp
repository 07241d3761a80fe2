// H2O's Algorithm 1 to the letter: once the cache is full, query i sees S_{i-1} without itself, so
// the newcomer's score is 0 when the lowest leaves. Nearly always it is the newcomer that leaves,
// and the first k tokens stay for ever.
#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const Arguments&, const Setting& setting) {
  return std::make_unique<Composition>(
      Parts{.ranked = setting.budget.tokens}, std::make_unique<AccumulatedRanking>(),
      Traits{.rows = RowForm::renormalised, .sees_newcomer = false});
}

const Registration registration(
    {.name = "h2o-literal",
     .summary = "Algorithm 1 of H2O to the letter: a full cache hides the newcomer and freezes",
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
