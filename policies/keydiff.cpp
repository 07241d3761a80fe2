// KeyDiff (Park et al., arXiv:2504.15364): the token leaves whose key is most like all that are
// cached, with the highest cosine to the mean of the cached keys, each divided by its norm. The
// mean is of the tokens held at this moment, the newcomer included, so a token that leaves changes
// the scores of the others. kvpress (keydiff_press.py) scores the whole prompt once, the paper goes
// through it in blocks and cuts the cache down after each: here every token is a block.
#include <cmath>

#include "policies/dot.hpp"
#include "policies/parts.hpp"
#include "policies/periodic_scores.hpp"

namespace kvreplay {
namespace {

/// The cosine to the mean of the normalised keys. The mean's own length is the same for all, so the
/// sum of the normalised keys ranks as their mean does. Every step scores anew; what it gives up
/// goes by one scoring.
class KeyDiffRanking final : public PeriodicScores {
 public:
  explicit KeyDiffRanking(const HeadVectors* vectors) : PeriodicScores(1), vectors_(vectors) {}

  std::optional<std::size_t> state_bytes() const override { return 0; }

 private:
  void score(const Held& held, const SlotRange& candidates, std::vector<double>& scores) override {
    if (held.tokens.size() == 2) {  // equally like their mean, which rounding must not decide
      scores.assign(2, 0.0);
      return;
    }
    sum_.assign(vectors_->head_size(), 0.0);
    factors_.clear();
    for (const std::uint32_t token : held.tokens) {
      const auto key = vectors_->key(token);
      const double length = std::sqrt(dot(key, key));
      factors_.push_back(length > 0 ? 1 / length : 0);  // a key of zeros has no direction
      for (std::size_t c = 0; c < key.size(); ++c) {
        sum_[c] += factors_.back() * static_cast<double>(key[c]);
      }
    }
    for (std::uint32_t slot = candidates.first; slot < candidates.last; ++slot) {
      const double likeness = dot(vectors_->key(held.tokens[slot]), std::span<const double>(sum_));
      scores[slot] = -factors_[slot] * likeness;
    }
  }

  const HeadVectors* vectors_;
  std::vector<double> factors_;  // by slot: 1 / norm
  std::vector<double> sum_;
};

Ranked ranked(std::string_view, const Arguments&, const Setting& setting) {
  return {std::make_unique<KeyDiffRanking>(setting.vectors)};
}

const PartRegistration part({.name = "keydiff",
                             .meaning = "the tokens whose keys are least like the mean of all",
                             .needs = {Need::keys},
                             .make = &ranked});

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Parts parts = ranked_and_recent("keydiff", arguments, setting.budget, 0);
  return composed(parts, ranked("keydiff", arguments, setting),
                  "recent=" + std::to_string(parts.recent));
}

const Registration registration(
    {.name = "keydiff",
     .summary = "the keys least like the mean of all cached ones (KeyDiff)",
     .note = "published per KV head, so heads of a group keep the same tokens, and for blocks of "
             "tokens; here every step evicts",
     .parameters = {recent_parameter("0")},
     .needs = {Need::keys},
     .scopes = {Scope::head, Scope::group},
     .make = &make});

}  // namespace
}  // namespace kvreplay
