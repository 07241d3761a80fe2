// TOVA (Oren et al., arXiv:2401.06104): the token that the current query attends least leaves.
// Nothing is accumulated and the newcomer is not protected. Where heads share a kept set each
// head's row is divided by its visible mass and then they are pooled. TOVA attends the prompt in
// full and cuts it down at once, by its last row alone: that is --prefill full.
#include <algorithm>

#include "policies/parts.hpp"

namespace kvreplay {
namespace {

/// The lowest weight in the last row leaves.
class LastRowRanking final : public NumberRanking {
 public:
  LastRowRanking() : NumberRanking(0) {}

 private:
  void update(const Held&, std::span<const double> weights) override {
    std::copy(weights.begin(), weights.end(), numbers().begin());
  }
};

Ranked last(std::string_view, const Arguments&, const Setting&) {
  return {.ranking = std::make_unique<LastRowRanking>(),
          .rows = RowForm::renormalised,
          .by = LowestLeaves::By::last_weight};
}

const PartRegistration part({.name = "last",
                             .meaning = "the tokens that the current query attends most (TOVA)",
                             .needs = {Need::rows},
                             .make = &last});

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Parts parts = ranked_and_recent("tova", arguments, setting.budget, 0);
  return composed(parts, last("tova", arguments, setting),
                  "recent=" + std::to_string(parts.recent));
}

const Registration registration({.name = "tova",
                                 .summary = "the highest attention in the current row (TOVA)",
                                 .note = "published for --scope layer (the mean over all heads); "
                                         "per head or group it is a variant",
                                 .parameters = {recent_parameter("0")},
                                 .needs = {Need::rows},
                                 .published_scope = Scope::layer,
                                 .make = &make});

}  // namespace
}  // namespace kvreplay
