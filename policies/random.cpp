// A control: any token may leave, the newcomer included.
#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

/// The finaliser of splitmix64, which maps 0 to 0.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Every unit has a stream of its own that does not depend on which others run: the generator
/// starts at seed XOR mix(layer * 2^32 + unit), so layer 0, unit 0 starts at the seed itself.
std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const std::uint64_t seed = arguments.integer("seed", 0);
  const std::uint64_t unit = (std::uint64_t{setting.layer} << 32) | setting.unit;
  return std::make_unique<Composition>(Parts{.ranked = setting.budget.tokens},
                                       std::make_unique<RandomRanking>(seed ^ mix(unit)),
                                       Traits{.parameters = "seed=" + std::to_string(seed)});
}

const Registration registration({.name = "random",
                                 .summary = "evicts any token, all equally likely (a control)",
                                 .parameters = {{.name = "seed",
                                                 .meaning = "start of the random numbers",
                                                 .kind = Parameter::Kind::integer,
                                                 .default_words = "--seed"}},
                                 .make = &make});

}  // namespace
}  // namespace kvreplay
