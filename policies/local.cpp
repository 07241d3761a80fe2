// The newest k tokens.
#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const Arguments&, const Setting& setting) {
  return std::make_unique<Composition>(Parts{.recent = setting.budget.tokens},
                                       std::make_unique<AgeRanking>(), Traits{});
}

const Registration registration({.name = "local",
                                 .summary = "a sliding window: the newest tokens",
                                 .make = &make});

}  // namespace
}  // namespace kvreplay
