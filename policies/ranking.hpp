// How the ranked part of a kept set orders its tokens: each class gives the one that leaves first.
// Among equals the lowest slot, which is the oldest token, leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policies/policy.hpp"

namespace kvreplay {

/// The slots that may be evicted: a range, half open, without some within it. Never empty.
struct SlotRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::span<const std::uint32_t> except = {};  ///< ascending, all within the range

  std::uint32_t size() const { return last - first - static_cast<std::uint32_t>(except.size()); }
  /// The candidate that has `before` others before it.
  Slot operator[](std::uint32_t before) const;
};

/// Called as CachePolicy is, with the choice narrowed to some slots. Where a policy evicts first, a
/// newcomer that no row has shown yet is among the held.
class Ranking {
 public:
  Ranking() = default;
  virtual ~Ranking() = default;
  Ranking(const Ranking&) = delete;
  Ranking& operator=(const Ranking&) = delete;

  virtual void observe(const Held&, std::span<const double> /*weights*/) {}
  virtual Slot worst(const Held& held, SlotRange candidates) = 0;
  virtual void dropped(Slot) {}
  virtual std::optional<std::size_t> state_bytes() const { return std::nullopt; }
};

/// A ranking with the form of rows that it must be shown, and its options as resolved, "seed=7".
struct Ranked {
  std::unique_ptr<Ranking> ranking;
  RowForm rows = RowForm::none;
  std::string parameters = {};
  std::uint64_t history_bytes = 0;          ///< as in Traits
  std::optional<LowestLeaves::By> by = {};  ///< where the rule is no more than that
};

/// The most tokens that a ranking has at once: a newcomer comes on top of the budget, and a prompt
/// that is attended in full comes before anything leaves.
std::uint64_t most_held(const Setting& setting);

/// The first candidate whose value is smallest; `values` by slot.
Slot first_minimum(std::span<const double> values, const SlotRange& candidates);

/// The oldest token leaves.
class AgeRanking final : public Ranking {
 public:
  Slot worst(const Held&, SlotRange candidates) override { return candidates[0]; }
  std::optional<std::size_t> state_bytes() const override { return 0; }
};

/// One number per held token, which a row changes; the lowest leaves.
class NumberRanking : public Ranking {
 public:
  /// `newcomer`: the number that a token comes with.
  explicit NumberRanking(double newcomer) : newcomer_(newcomer) {}

  void observe(const Held& held, std::span<const double> weights) final {
    numbers_.resize(held.tokens.size(), newcomer_);
    update(held, weights);
  }
  Slot worst(const Held& held, SlotRange candidates) final {
    numbers_.resize(held.tokens.size(), newcomer_);
    return lowest(held, candidates);
  }
  void dropped(Slot slot) final {
    numbers_.erase(numbers_.begin() + index(slot));
    forget(slot);
  }
  std::optional<std::size_t> state_bytes() const override {
    return numbers_.size() * sizeof(double);
  }

 protected:
  std::span<double> numbers() { return numbers_; }
  /// `weights` may lack the newcomer's.
  virtual void update(const Held& held, std::span<const double> weights) = 0;
  virtual Slot lowest(const Held&, const SlotRange& candidates) {
    return first_minimum(numbers_, candidates);
  }
  virtual void forget(Slot) {}

 private:
  double newcomer_;
  std::vector<double> numbers_;
};

}  // namespace kvreplay
