// A control: any token may leave, the newcomer included.
#include "policies/composition.hpp"
#include "policies/random_numbers.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const std::uint64_t seed = arguments.integer("seed", 0);
  return std::make_unique<Composition>(Parts{.ranked = setting.budget.tokens},
                                       std::make_unique<RandomRanking>(unit_seed(seed, setting)),
                                       Traits{.parameters = "seed=" + std::to_string(seed)});
}

const Registration registration({.name = "random",
                                 .summary = "evicts any token, all equally likely (a control)",
                                 .parameters = {seed_parameter()},
                                 .make = &make});

}  // namespace
}  // namespace kvreplay
