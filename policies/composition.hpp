// A kept set as the sum of its parts: the first tokens of the sequence, the newest ones and some
// anywhere are protected, the rest is ranked. Most policies are no more than that.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/arguments.hpp"
#include "policies/policy.hpp"
#include "policies/ranking.hpp"
#include "policies/score.hpp"

namespace kvreplay {

/// Tokens of each part. The recent window includes the newcomer, and a token that leaves it
/// competes with the ranked ones from then on. What a protected part does not fill, because its
/// tokens have not come yet or are another part's too, is the ranked ones' to use.
struct Parts {
  std::uint32_t sinks = 0;
  std::uint32_t ranked = 0;
  std::uint32_t recent = 0;
  std::uint32_t pinned = 0;                       ///< room for the tokens in:
  std::vector<std::uint32_t> pinned_tokens = {};  ///< ascending, at most `pinned`; never evicted
  std::uint32_t batch = 1;                        ///< tokens that leave a full cache at a time

  std::uint32_t capacity() const { return sinks + ranked + recent + pinned; }
};

class Composition final : public CachePolicy {
 public:
  /// traits.capacity, traits.protects_newcomer and, where a batch is more than one token,
  /// traits.leaves_room are overwritten.
  Composition(Parts parts, std::unique_ptr<Ranking> ranking, Traits traits);

  void observe(const Held& held, std::span<const double> weights) override;
  std::optional<Slot> victim(const Held& held) override;
  void dropped(Slot slot) override;
  std::optional<std::size_t> state_bytes() const override { return ranking_->state_bytes(); }

 private:
  SlotRange candidates(const Held& held);

  Parts parts_;
  std::unique_ptr<Ranking> ranking_;
  std::vector<std::uint32_t> pinned_slots_;  // of the pinned tokens that have come, ascending
  std::uint32_t leaving_ = 0;                // of the batch that is under way
};

/// Parameters that several policies share.
Parameter heavy_parameter();
Parameter recent_parameter(std::string default_words);
Parameter sinks_parameter();
Parameter seed_parameter();
Parameter evict_parameter();
/// Traits::evicts_first of it.
bool evict_argument(const Arguments& arguments);

/// What one part asks of the budget; no amount: what the others leave.
struct Claim {
  std::string name;
  std::optional<Amount> amount;
};
/// The tokens of each claim, of which at most one has no amount. Shares that sum to 1 leave nothing
/// over: the remainder is the recent part's, or the last one's. Throws std::invalid_argument where
/// they exceed the budget or all come to 0.
std::vector<std::uint32_t> tokens_of(std::string_view policy, const std::vector<Claim>& claims,
                                     Budget budget);

/// The parts of heavy + recent. Where neither is given heavy gets half, rounded down; where one is
/// given the other takes the rest. Throws as tokens_of().
Parts heavy_and_recent(std::string_view policy, const Arguments& arguments, Budget budget);
/// As heavy_and_recent, for sinks + recent: 4 sinks unless given, or what the budget has room for.
Parts sinks_and_recent(std::string_view policy, const Arguments& arguments, Budget budget);
/// As heavy_and_recent, for a recent part of `usual` tokens unless given, or what the budget has
/// room for; the rest is ranked.
Parts ranked_and_recent(std::string_view policy, const Arguments& arguments, Budget budget,
                        std::uint32_t usual);

/// A composition of these parts with a ranking, "NAME=TOKENS:...:" before its options.
std::unique_ptr<CachePolicy> composed(Parts parts, Ranked ranked, std::string parameters,
                                      bool evicts_first = false);

/// The parameters heavy, recent, those of a score, and evict.
std::vector<Parameter> heavy_policy_parameters(std::optional<Score::Form> fixed = {});
/// heavy + recent, ranked by score.
std::unique_ptr<CachePolicy> heavy_policy(std::string_view policy, const Arguments& arguments,
                                          const Setting& setting,
                                          std::optional<Score::Form> fixed = {});

}  // namespace kvreplay
