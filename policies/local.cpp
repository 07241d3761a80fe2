// The newest k tokens.
#include "policies/parts.hpp"

namespace kvreplay {
namespace {

Ranked oldest(std::string_view, const Arguments&, const Setting&) {
  return {.ranking = std::make_unique<AgeRanking>(), .by = LowestLeaves::By::age};
}

const PartRegistration part({.name = "oldest",
                             .meaning = "of what is not protected the newest: the oldest leaves",
                             .make = &oldest});

std::unique_ptr<CachePolicy> make(const Arguments&, const Setting& setting) {
  return std::make_unique<Composition>(
      Parts{.recent = setting.budget.tokens}, std::make_unique<AgeRanking>(),
      Traits{.lowest_leaves = LowestLeaves{LowestLeaves::By::age}});
}

const Registration registration({.name = "local",
                                 .summary = "a sliding window: the newest tokens",
                                 .also_called = {"sliding window", "window attention"},
                                 .make = &make});

}  // namespace
}  // namespace kvreplay
