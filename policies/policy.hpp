// What a policy is and how its host calls it. The host is whoever holds the cache: the replay
// engine, or a model that runs with an evicted cache. It owns the kept set and checks every answer.
//
// A CachePolicy has a memory and drops for good. One object serves one unit (the heads that share a
// kept set) over one sequence. At every step i = 0, 1, 2, ... the host, in this order,
//   1. puts token i into a new last slot. Slots hold tokens in ascending order, without gaps;
//   2. calls observe(), unless traits().rows is RowForm::none, with what query i gave to the
//      visible slots: all of them, or, where traits().sees_newcomer is false and the cache was full
//      before step i, all but the newcomer's. Where several heads share the kept set, the weights
//      are the sum of the heads' rows. A row without visible mass arrives as zeros;
//   3. while more than traits().capacity slots are held: calls victim(), checks that the slot
//      exists, takes its token out, moves the slots behind it down by one, and calls dropped(), so
//      that the policy does the same with whatever it remembers per slot.
//
// A RowChoice has no memory: it chooses afresh which earlier tokens each row sees. At every step
// the host calls choose() with the whole row and checks that the tokens ascend, are earlier than i
// and no more than traits().capacity; query i sees them and itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvreplay {

/// Tokens that may stay after a step, k.
struct Budget {
  std::uint32_t tokens = 0;
};

/// A place in the cache; not the token that lies there.
enum class Slot : std::uint32_t {};
constexpr std::uint32_t index(Slot slot) {
  return static_cast<std::uint32_t>(slot);
}

/// Which heads share one kept set.
enum class Scope { head, group, layer };

/// What a policy is shown of a row: nothing, the row as recorded, or divided by its visible mass.
enum class RowForm { none, raw, renormalised };

/// Where a policy object stands, known before the first row.
struct Setting {
  Budget budget;
  std::uint32_t tokens = 0;  ///< n, the length of the sequence
  std::uint32_t layer = 0;   ///< model index
  std::uint32_t unit = 0;    ///< model index of the head or of the group; 0 at layer scope
};

/// What the host must know of a policy.
struct Traits {
  std::uint32_t capacity = 0;      ///< most tokens held after a step
  RowForm rows = RowForm::none;    ///< what observe() or choose() is given
  bool sees_newcomer = true;       ///< whether query i sees token i once the cache is full
  bool protects_newcomer = false;  ///< whether token i always outlives step i
  std::string parameters = {};     ///< as resolved for this budget, "heavy=54:recent=55"
};

/// The slots at step i, the newcomer included.
struct Held {
  std::uint32_t step = 0;
  std::span<const std::uint32_t> tokens;  ///< ascending
};

class CachePolicy {
 public:
  explicit CachePolicy(Traits traits) : traits_(std::move(traits)) {}
  virtual ~CachePolicy() = default;
  CachePolicy(const CachePolicy&) = delete;
  CachePolicy& operator=(const CachePolicy&) = delete;

  const Traits& traits() const { return traits_; }

  /// `weights[s]` belongs to `held.tokens[s]`.
  virtual void observe(const Held& held, std::span<const double> weights) = 0;
  virtual Slot victim(const Held& held) = 0;
  virtual void dropped(Slot slot) = 0;

 private:
  Traits traits_;
};

class RowChoice {
 public:
  explicit RowChoice(Traits traits) : traits_(std::move(traits)) {}
  virtual ~RowChoice() = default;
  RowChoice(const RowChoice&) = delete;
  RowChoice& operator=(const RowChoice&) = delete;

  const Traits& traits() const { return traits_; }

  /// `row` holds the step + 1 weights of query `step`; `tokens` comes with the last choice and is
  /// replaced by the new one.
  virtual void choose(std::uint32_t step, std::span<const double> row,
                      std::vector<std::uint32_t>& tokens) = 0;

 private:
  Traits traits_;
};

}  // namespace kvreplay
