// Key norm (Devoto et al., arXiv:2406.11430): keys of a low Euclidean norm are those that queries
// attend, so the token with the highest one leaves. The score of a token never changes: to evict
// one at every step, or all at once behind the prompt, comes to the same set. As in kvpress
// (knorm_press.py), which cuts a prompt down once: no token is protected and no layer left out,
// where the authors' program (alessiodevoto/l2compress) can skip layers.
#include "policies/parts.hpp"

namespace kvreplay {
namespace {

/// The highest norm of a key leaves.
class KeyNormRanking final : public Ranking {
 public:
  explicit KeyNormRanking(const HeadVectors* vectors) : vectors_(vectors) {}

  Slot worst(const Held& held, SlotRange candidates) override {
    while (scores_.size() < held.tokens.size()) {
      scores_.push_back(-vectors_->key_norm(held.tokens[scores_.size()]));
    }
    return first_minimum(scores_, candidates);
  }
  void dropped(Slot slot) override { scores_.erase(scores_.begin() + index(slot)); }
  std::optional<std::size_t> state_bytes() const override {
    return scores_.size() * sizeof(double);
  }

 private:
  const HeadVectors* vectors_;
  std::vector<double> scores_;  // by slot
};

Ranked ranked(std::string_view, const Arguments&, const Setting& setting) {
  return {std::make_unique<KeyNormRanking>(setting.vectors)};
}

const PartRegistration part({.name = "knorm",
                             .meaning = "the tokens whose keys have the lowest norm",
                             .needs = {Need::key_norms},
                             .make = &ranked});

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  const Parts parts = ranked_and_recent("knorm", arguments, setting.budget, 0);
  return composed(parts, ranked("knorm", arguments, setting),
                  "recent=" + std::to_string(parts.recent));
}

const Registration registration(
    {.name = "knorm",
     .summary = "the lowest norms of keys",
     .note = "published per KV head, so heads of a group keep the same tokens; the authors' "
             "program can skip layers",
     .parameters = {recent_parameter("0")},
     .needs = {Need::key_norms},
     .scopes = {Scope::head, Scope::group},
     .make = &make});

}  // namespace
}  // namespace kvreplay
