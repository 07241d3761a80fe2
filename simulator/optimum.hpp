// The exact offline optimum of every unit of a plan: the least that irreversible eviction can lose.
//
// What is compared with it must keep to the same rules. A token enters when its query comes, may be
// dropped after that query or any later one, and never comes back; after a step no more than k
// tokens are held, so that a query sees k and itself. Where the prompt is attended in full
// (Prefill::full) the k are chosen behind its last query. The recoverable bound beside it chooses
// the k anew for each query.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "simulator/objective.hpp"
#include "simulator/plan.hpp"
#include "traces/row_source.hpp"
#include "traces/run_control.hpp"

namespace kvreplay {

class OptimalSets;

struct OptimumPlan {
  ReplayPlan replay;  ///< trace, units, prompt and steps; no cells are needed
  Objective objective;
  std::uint32_t full_rows = 0;  ///< the prompt's, that attend all before them
  /// Ascending. `held`: what k bounds. Statistics go over the rows from `first_row` on; those
  /// before lose nothing, or do not count.
  struct At {
    ResolvedBudget budget;
    std::uint32_t held = 0;
    std::uint32_t first_row = 0;
  };
  std::vector<At> budgets;

  /// The first row that is worth anything.
  std::uint32_t first_worth() const;
  /// How often the budget of a unit is made one less.
  std::uint32_t evictions() const;
};

/// The first step whose samples count at a budget, as for a policy that keeps to it; the prompt's
/// first `full_rows` rows attend all before them.
std::uint32_t first_measured(const ReplayPlan& plan, const ResolvedBudget& budget,
                             std::uint32_t full_rows);

/// Throws std::invalid_argument as plan_replay(), and for what the objective needs and the trace
/// does not hold; every row is needed. `request` brings no policies.
OptimumPlan plan_optimum(const TraceInfo& info, std::string_view trace, ReplayRequest request,
                         const Objective& objective);

/// What a unit loses at least at one budget.
struct LeastLoss {
  double loss = 0;         ///< summed over rows and heads
  double recoverable = 0;  ///< the same where tokens may come back
  std::uint64_t samples = 0;

  LeastLoss& operator+=(const LeastLoss& other);
  /// Of a sum of losses; 0 where there are no samples.
  double mean(double sum) const { return samples == 0 ? 0 : sum / static_cast<double>(samples); }
};

struct OptimumOutcome {
  std::vector<std::vector<LeastLoss>> units;  ///< by unit, then by budget; empty: not done
  std::uint64_t units_done = 0;

  bool whole() const { return units_done == units.size(); }
  /// Over all units that are done, or those of one layer.
  std::vector<LeastLoss> total(const OptimumPlan& plan,
                               std::optional<std::uint32_t> layer = std::nullopt) const;
};

/// Units run in parallel; the outcome does not depend on how many threads there are. When stopped,
/// returns what is done. `sets`, where given, gets the evictions of the units that are done. Throws
/// InputError for rows that are not probabilities.
OptimumOutcome find_optimum(const RowSource& source, const OptimumPlan& plan, unsigned threads,
                            const RunControl& control, OptimalSets* sets = nullptr);

/// Bytes that find_optimum() holds, roughly.
std::uint64_t estimated_bytes(const OptimumPlan& plan, unsigned threads);

}  // namespace kvreplay
