// The full cache: nothing ever leaves, whatever the budget. The zero of every loss.
#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const Arguments&, const Setting& setting) {
  return std::make_unique<Composition>(Parts{.recent = setting.tokens},
                                       std::make_unique<AgeRanking>(), Traits{});
}

const Registration registration({.name = "full",
                                 .summary = "keeps every token, whatever the budget",
                                 .make = &make});

}  // namespace
}  // namespace kvreplay
