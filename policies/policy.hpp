// What a policy is and how its host calls it. The host is whoever holds the cache: the replay
// engine, or a model that runs with an evicted cache. It owns the kept set and checks every answer.
//
// A CachePolicy has a memory and drops for good. One object serves one unit (the heads that share a
// kept set) over one sequence. At every step i = 0, 1, 2, ... the host, in this order,
//   1. puts token i into a new last slot. Slots hold tokens in ascending order, without gaps;
//   2. where traits().evicts_first: evicts (see below), before query i sees anything;
//   3. calls observe(), unless traits().rows is RowForm::none, with what query i gave to the
//      visible slots: all of them, or, where traits().sees_newcomer is false and the cache was full
//      before step i, all but the newcomer's. Where several heads share the kept set, the weights
//      are their rows pooled. A row without visible mass arrives as zeros;
//   4. evicts, unless it did before. Evicting means: calls victim() until it names no slot; each
//      time checks that the slot exists, takes its token out, moves the slots behind it down by
//      one, and calls dropped(), so that the policy does the same with whatever it remembers per
//      slot. In the end no more than traits().capacity slots may be held.
// Where the prompt is attended in full (Prefill::full, or traits().whole_prompt), nothing is
// evicted before the prompt's last query has seen all of it; then the host evicts as in 4.
//
// A RowChoice chooses afresh which earlier tokens each row sees. At every step the host calls
// choose() and checks that the tokens ascend, are earlier than i and no more than
// traits().capacity; query i sees them and itself. While the prompt is attended in full the host
// calls choose() too, and lets the query see everything, whatever was chosen. Then it calls
// observe() as in 3., with what query i gave to all that it saw.
//
// A policy that goes by queries, keys or values says so where it registers, and finds them through
// Setting::vectors. Before it asks anything of step i the host lets token i in; what has not come
// yet it refuses. Of a token that has left a CachePolicy may use what it remembers, not the
// vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policies/head_vectors.hpp"

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
enum class Scope { head, group, layer, all };

/// How the rows of heads that share a kept set become the one row that their policy is shown.
enum class Pooling { mean, sum, max };

/// Whether the prompt's tokens come one by one into a bounded cache, or attend all before them.
enum class Prefill { stream, full };

/// What a policy observes of a row: nothing, the weights as recorded, or divided by their sum.
enum class RowForm { none, raw, renormalised };

/// What a RowChoice is given the whole row for, what the query does not see of it included.
enum class WholeRow { none, later_choices, own_choice };

/// Where a policy object stands, known before the first row.
struct Setting {
  Budget budget;                     ///< as asked for
  std::optional<Budget> dealt = {};  ///< of this unit, once an adaptive policy has dealt it out
  std::uint32_t tokens = 0;          ///< n, the length of the sequence
  std::uint32_t prompt_tokens = 0;   ///< m; the tokens behind it are decoded
  Prefill prefill = Prefill::stream;
  std::uint32_t layer = 0;         ///< model index; 0 at scope all
  std::uint32_t unit = 0;          ///< model index of the head or of the group; 0 at wider scopes
  std::uint32_t model_layers = 1;  ///< of the whole model
  std::uint32_t heads = 1;         ///< that share the kept set
  std::uint32_t head_size = 0;     ///< d; 0: unknown
  /// [n] sums of the raw, pooled rows over the whole sequence; empty without Need::future_rows, and
  /// for an object of which only the traits are asked.
  std::span<const double> column_sums = {};
  std::span<const std::string> pieces = {};  ///< [n] texts of the tokens; empty: unknown
  /// Of the unit's heads, which read one KV head; outlives the policy. Null without a need of them,
  /// and for an object of which only the traits are asked.
  const HeadVectors* vectors = nullptr;
};

/// The rule of many policies: once the cache is over capacity, the token leaves whose number is the
/// lowest; of equals the oldest.
struct LowestLeaves {
  /// Its place in the sequence, its weight in the last row, the sum of its weights in the rows that
  /// saw it, added row by row, or in all rows, see Setting::column_sums.
  enum class By { age, last_weight, sum, column_sum };
  By by = By::age;
  std::uint32_t sinks = 0;   ///< first tokens of the sequence that never leave
  std::uint32_t recent = 0;  ///< newest tokens, the current one included, that cannot leave

  bool operator==(const LowestLeaves&) const = default;
};

/// What the host must know of a policy.
struct Traits {
  std::uint32_t capacity = 0;           ///< most tokens held after a step
  RowForm rows = RowForm::none;         ///< what observe() is given
  WholeRow whole_row = WholeRow::none;  ///< of a RowChoice
  bool sees_newcomer = true;            ///< whether query i sees token i once the cache is full
  bool protects_newcomer = false;       ///< whether token i always outlives step i
  bool evicts_first = false;            ///< before query i attends, not after
  bool counts_newcomer = false;         ///< whether the capacity has room for token i at every step
  bool leaves_room = false;             ///< may give up or not choose a token that it had room for
  bool recent_before = false;           ///< its `recent` counts tokens before token i, not i itself
  bool whole_prompt = false;            ///< by definition, whatever Setting::prefill says
  /// Where the policy is no more than this, of weights in the form `rows`, a host that replays many
  /// budgets at once may follow it by itself.
  std::optional<LowestLeaves> lowest_leaves = {};
  std::uint64_t history_bytes = 0;  ///< held of past rows at most, beside some numbers per token
  std::string parameters = {};      ///< as resolved for this budget, "heavy=54:recent=55"
};

/// Most tokens that a query attends, itself included; not of a prompt that is attended in full.
inline std::uint32_t most_visible(const Traits& traits) {
  const bool within = traits.evicts_first || !traits.sees_newcomer || traits.counts_newcomer;
  return within ? traits.capacity : traits.capacity + 1;
}

/// Most of them that arrived before it.
inline std::uint32_t most_visible_before(const Traits& traits) {
  return most_visible(traits) - (traits.sees_newcomer ? 1 : 0);
}

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
  /// The slot to give up; none once the set may stay as it is.
  virtual std::optional<Slot> victim(const Held& held) = 0;
  virtual void dropped(Slot slot) = 0;
  /// Bytes of what is remembered of the sequence at this moment: the numbers that a deployed policy
  /// would store beside the cache, without scratch space. None: not known.
  virtual std::optional<std::size_t> state_bytes() const { return std::nullopt; }

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

  /// `row` holds the step + 1 raw weights of query `step`, pooled where heads share the choice;
  /// it is empty where traits().whole_row is none. `tokens` comes with the last choice and is
  /// replaced by the new one.
  virtual void choose(std::uint32_t step, std::span<const double> row,
                      std::vector<std::uint32_t>& tokens) = 0;
  /// As CachePolicy::observe(); the held are what query `held.step` saw, itself included.
  virtual void observe(const Held& /*held*/, std::span<const double> /*weights*/) {}
  /// As CachePolicy::state_bytes().
  virtual std::optional<std::size_t> state_bytes() const { return std::nullopt; }

 private:
  Traits traits_;
};

}  // namespace kvreplay
