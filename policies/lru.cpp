// Least recently used: a row uses the tokens whose weight in it is at least 1 / |V_i|, and the one
// whose last use is longest ago leaves; one that was never used leaves before all others, and among
// equals the oldest. To come is no use. As in Graphcore's eviction study
// (graphcore-research/llm-inference-research), where the newcomer is held for free and a local
// window is protected; its even share is 1 over the number of weights above 1e-9.
#include "policies/parts.hpp"
#include "policies/use.hpp"

namespace kvreplay {
namespace {

class LastUseRanking final : public NumberRanking {
 public:
  LastUseRanking() : NumberRanking(-1) {}

 private:
  void update(const Held& held, std::span<const double> weights) override {
    const auto last_uses = numbers();
    for (std::size_t slot = 0; slot < weights.size(); ++slot) {
      if (is_use(weights[slot], weights.size())) last_uses[slot] = held.step;
    }
  }
};

Ranked lru(std::string_view, const Arguments& arguments, const Setting&) {
  const RowForm rows = rows_argument(arguments);
  return {std::make_unique<LastUseRanking>(), rows, "rows=" + std::string(name(rows))};
}

const PartRegistration part({.name = "lru",
                             .meaning = "the tokens used last; a use is a weight of at least 1/|V|",
                             .parameters = {rows_parameter()},
                             .needs = {Need::rows},
                             .make = &lru});

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Parts parts = ranked_and_recent("lru", arguments, setting.budget, 1);
  return composed(parts, lru("lru", arguments, setting), "recent=" + std::to_string(parts.recent));
}

const Registration registration(
    {.name = "lru",
     .summary = "the tokens used last; a use is a weight of at least 1/|V|",
     .note = "published with the mean row of a KV group, --scope group",
     .parameters = {recent_parameter("1"), rows_parameter()},
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
