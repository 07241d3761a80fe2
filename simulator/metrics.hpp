// What a replay measures, and in which order samples and summaries of it are held.
//
// Per head and step (r: the part of the row's sum that V_i holds)
//   mass_loss       1 - r
//   miss_RULE       share of the needed set that V_i lacks; a row that needs nothing has no sample
//   output_error    |o_V - o| / |o|, where the trace holds values v: o = sum of p_ij v_j, and o_V
//   the
//                   same over V_i with the row divided by its visible mass
// per unit and step, of the set S_i after the step,
//   kept            |S_i|
//   visible         |V_i|
//   turnover        |S_{i-1} \ S_i| / |S_{i-1}|: the share of the kept set that left at this step
//   age             mean of i - j over the tokens j of S_i
// per unit and eviction, which must be for good, where ReplayPlan::regrets(),
//   regret_RULE     1 where a later row of any of the unit's heads needs the token, else 0
//   delay_RULE      steps from the eviction to the first such row; only of what is regretted
// where ReplayPlan::unions, per KV group and step, of its heads' sets S_i,
//   union           tokens in any of them
//   union_bytes     union * 2 * head size * 2 bytes: their keys and values in fp16
//   union_ratio     union / mean |S_i| of the heads
// and where ReplayPlan::cost, per unit and step,
//   cost_ns         nanoseconds spent in the policy's own calls
//   state_bytes     what the policy remembers after the step; none where it does not say
// RULE is the kind of a needed set, with its value where a run has several of that kind.
// For a RowChoice S_i is what row i saw besides itself, and nothing is evicted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/plan.hpp"
#include "simulator/samples.hpp"

namespace kvreplay {

/// The places of the metrics in every list of them.
class Metrics {
 public:
  explicit Metrics(const ReplayPlan& plan);

  const std::vector<std::string>& names() const { return names_; }
  std::size_t size() const { return names_.size(); }

  static constexpr std::size_t mass_loss() { return 0; }
  static constexpr std::size_t miss(std::size_t rule) { return 1 + rule; }
  std::size_t kept() const { return 1 + rules_; }
  std::size_t visible() const { return kept() + 1; }
  std::size_t turnover() const { return kept() + 2; }
  std::size_t age() const { return kept() + 3; }
  std::size_t output_error() const { return kept() + 4; }  ///< where the plan has values
  /// The first so many have samples of every step by itself: all above.
  std::size_t stepwise() const { return age() + (has_values_ ? 2 : 1); }
  std::size_t regret(std::size_t rule) const { return stepwise() + 2 * rule; }
  std::size_t delay(std::size_t rule) const { return regret(rule) + 1; }
  /// union, union_bytes, union_ratio
  std::size_t unions() const { return regret(has_regret_ ? rules_ : 0); }
  std::size_t cost() const { return unions() + (has_unions_ ? 3 : 0); }  ///< cost_ns, state_bytes

  /// Whether a group has samples of it, and none of its heads.
  bool of_groups(std::size_t metric) const { return metric >= unions() && metric < cost(); }

  /// Whether results tell how many samples over all lie in each octave.
  bool has_octaves(std::size_t metric) const {
    return metric == age() ||
           (metric >= stepwise() && metric < unions() && (metric - stepwise()) % 2 == 1);
  }

  /// One for each metric, still empty. Numbers of tokens in sets are counted exactly.
  const std::vector<Samples>& no_samples() const { return no_samples_; }

 private:
  std::size_t rules_;
  bool has_values_;
  bool has_regret_;
  bool has_unions_;
  std::vector<std::string> names_;
  std::vector<Samples> no_samples_;
};

/// Bytes of the histograms of all metrics of one cell, at most; `stepwise`: of the stepwise metrics
/// alone, over all steps.
std::uint64_t histogram_bytes(const ReplayPlan& plan, const CellPlan& cell, bool stepwise = false);

}  // namespace kvreplay
