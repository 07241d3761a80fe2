// H2O fed with what it cannot know: the score of a token is its column sum over the whole sequence,
// sum_i P[i][j], the future included. The paper draws it as the infeasible policy that local
// statistics are compared with (arXiv:2306.14048). Heavy and recent share the budget as in h2o.
#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

/// The token with the lowest of scores that are known from the start leaves.
class KnownRanking final : public Ranking {
 public:
  explicit KnownRanking(std::span<const double> scores) : scores_(scores.begin(), scores.end()) {}

  Slot worst(const Held& held, SlotRange candidates) override {
    by_slot_.resize(held.tokens.size());
    for (std::uint32_t slot = candidates.first; slot < candidates.last; ++slot) {
      by_slot_[slot] = scores_[held.tokens[slot]];
    }
    return first_minimum(by_slot_, candidates);
  }
  std::optional<std::size_t> state_bytes() const override {
    return scores_.size() * sizeof(double);
  }

 private:
  std::vector<double> scores_;   // by token
  std::vector<double> by_slot_;  // scratch
};

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Parts parts = heavy_and_recent("h2o-global", arguments, setting.budget);
  return std::make_unique<Composition>(
      parts, std::make_unique<KnownRanking>(setting.column_sums),
      Traits{.lowest_leaves = LowestLeaves{LowestLeaves::By::column_sum, 0, parts.recent},
             .parameters = "heavy=" + std::to_string(parts.ranked) +
                           ":recent=" + std::to_string(parts.recent)});
}

const Registration registration(
    {.name = "h2o-global",
     .summary = "the highest attention summed over the whole sequence, and a sliding window",
     .note = "knows the future, so no model can run it; column sums are of the rows as recorded",
     .parameters = {heavy_parameter(), recent_parameter("what heavy leaves")},
     .needs = {Need::future_rows},
     .make = &make});

}  // namespace
}  // namespace kvreplay
