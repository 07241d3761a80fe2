// H2O as the authors' utils_real_drop runs it: the prompt is attended in full and scores start as
// its column sums. Then, after a query has attended and the cache holds more than heavy + recent
// tokens, the newest `recent` and those with the highest scores among all others stay, so a query
// sees up to heavy + recent + 1. Rows are divided by their visible mass, which is what a model
// without the evicted tokens computes.
#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Parts parts = heavy_and_recent("h2o-drop", arguments, setting.budget);
  return std::make_unique<Composition>(
      parts, std::make_unique<AccumulatedRanking>(),
      Traits{.rows = RowForm::renormalised,
             .whole_prompt = true,
             .parameters = "heavy=" + std::to_string(parts.ranked) +
                           ":recent=" + std::to_string(parts.recent)});
}

const Registration registration(
    {.name = "h2o-drop",
     .summary = "H2O of the authors' code that drops: the prompt in full, then h2o",
     .note = "the code sums in the model's precision and, in its streaming form, makes room before "
             "each prompt; here sums are in fp64 and there is one prompt",
     .parameters = {heavy_parameter(), recent_parameter("what heavy leaves")},
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
