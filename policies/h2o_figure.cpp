// H2O as the worked example in its paper draws it: query i sees S_{i-1} and itself, everybody's
// score grows by that row, and the lowest score leaves, the newcomer's included.
#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const RowForm rows = rows_argument(arguments);
  return std::make_unique<Composition>(
      Parts{.ranked = setting.budget.tokens}, std::make_unique<AccumulatedRanking>(),
      Traits{.rows = rows, .parameters = "rows=" + std::string(name(rows))});
}

const Registration registration(
    {.name = "h2o-figure",
     .summary = "the highest accumulated attention, no window (the example in H2O's paper)",
     .parameters = {rows_parameter()},
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
