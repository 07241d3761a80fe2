// H2O as deployed (Zhang et al., arXiv:2306.14048): the tokens with the highest accumulated
// attention and the newest ones, in disjoint shares of the budget. With recent=0 the newcomer
// competes at once; with heavy=0 it is a sliding window.
#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Parts parts = heavy_and_recent("h2o", arguments, setting.budget);
  const RowForm rows = rows_argument(arguments);
  return std::make_unique<Composition>(
      parts, std::make_unique<AccumulatedRanking>(),
      Traits{.rows = rows,
             .parameters = "heavy=" + std::to_string(parts.ranked) + ":recent=" +
                           std::to_string(parts.recent) + ":rows=" + std::string(name(rows))});
}

const Registration registration(
    {.name = "h2o",
     .summary = "the highest accumulated attention and a sliding window (H2O as deployed)",
     .parameters = {heavy_parameter(), recent_parameter("what heavy leaves"), rows_parameter()},
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
