// A kept set as the sum of its parts: the first tokens of the sequence and the newest ones are
// protected, the rest is ranked. Most policies are no more than that.
#pragma once

#include <memory>
#include <string>

#include "policies/arguments.hpp"
#include "policies/policy.hpp"
#include "policies/ranking.hpp"

namespace kvreplay {

/// Tokens of each part. They are disjoint: the recent window includes the newcomer, and a token
/// that leaves it competes with the ranked ones from then on.
struct Parts {
  std::uint32_t sinks = 0;
  std::uint32_t ranked = 0;
  std::uint32_t recent = 0;
};

class Composition final : public CachePolicy {
 public:
  /// The capacity is the sum of the parts; traits.capacity and
  /// traits.protects_newcomer are overwritten.
  Composition(Parts parts, std::unique_ptr<Ranking> ranking, Traits traits);

  void observe(const Held& held, std::span<const double> weights) override;
  std::optional<Slot> victim(const Held& held) override;
  void dropped(Slot slot) override;
  std::optional<std::size_t> state_bytes() const override { return ranking_->state_bytes(); }

 private:
  Parts parts_;
  std::unique_ptr<Ranking> ranking_;
};

/// Parameters that several policies share.
Parameter heavy_parameter();
Parameter recent_parameter(std::string default_words);
Parameter sinks_parameter();
Parameter rows_parameter();
Parameter seed_parameter();
RowForm rows_argument(const Arguments& arguments);
std::string_view name(RowForm rows);

/// The parts of heavy + recent. Where neither is given heavy gets half, rounded down; where one is
/// given the other takes the rest; two shares that sum to 1 leave nothing over. Throws
/// std::invalid_argument where both together exceed the budget.
Parts heavy_and_recent(std::string_view policy, const Arguments& arguments, Budget budget);
/// A policy of these parts, with the parameters heavy, recent and rows.
std::unique_ptr<CachePolicy> heavy_and_recent_policy(std::string_view policy,
                                                     const Arguments& arguments, Budget budget,
                                                     std::unique_ptr<Ranking> ranking);
/// As heavy_and_recent, for sinks + recent: 4 sinks unless given, or what the budget has room for.
Parts sinks_and_recent(std::string_view policy, const Arguments& arguments, Budget budget);

}  // namespace kvreplay
