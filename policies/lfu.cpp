// Least frequently used: a row uses the tokens whose weight in it is at least 1 / |V_i|, and the
// one with the fewest uses since it came leaves, the oldest among equals. A control from caching;
// no paper is followed.
#include "policies/parts.hpp"
#include "policies/use.hpp"

namespace kvreplay {
namespace {

class UsesRanking final : public NumberRanking {
 public:
  UsesRanking() : NumberRanking(0) {}

 private:
  void update(const Held&, std::span<const double> weights) override {
    const auto uses = numbers();
    for (std::size_t slot = 0; slot < weights.size(); ++slot) {
      if (is_use(weights[slot], weights.size())) ++uses[slot];
    }
  }
};

Ranked lfu(std::string_view, const Arguments& arguments, const Setting&) {
  const RowForm rows = rows_argument(arguments);
  return {std::make_unique<UsesRanking>(), rows, "rows=" + std::string(name(rows))};
}

const PartRegistration part(
    {.name = "lfu",
     .meaning = "the tokens used most often; a use is a weight of at least 1/|V|",
     .parameters = {rows_parameter()},
     .needs = {Need::rows},
     .make = &lfu});

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Parts parts = ranked_and_recent("lfu", arguments, setting.budget, 1);
  return composed(parts, lfu("lfu", arguments, setting), "recent=" + std::to_string(parts.recent));
}

const Registration registration(
    {.name = "lfu",
     .summary = "the tokens used most often; a use is a weight of at least 1/|V|",
     .parameters = {recent_parameter("1"), rows_parameter()},
     .needs = {Need::rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
