// What will be compared, and when, resolved for one trace before any row is read.
#pragma once

#include <cstdint>
#include <vector>

#include "reports/agreement/quantities.hpp"
#include "simulator/optimum.hpp"
#include "simulator/plan.hpp"

namespace kvreplay::agreement {

/// The cells of h2o and of h2o-global at one budget below n.
struct BudgetCells {
  ResolvedBudget budget;
  std::size_t h2o = 0;
  std::size_t h2o_global = 0;

  std::uint32_t tokens() const { return budget.budget.tokens; }
};

struct AgreementPlan {
  ReplayPlan replay;                 ///< of scope head; its bins are the segments
  std::vector<BudgetCells> budgets;  ///< ascending; those of n tokens, where nothing leaves, not
  std::vector<ResolvedBudget> holding_all;  ///< those
  std::vector<Quantity> quantities;
  double rbo_p = 0.9;
  std::uint64_t seed = 0;  ///< of the random orders

  std::uint32_t segments() const { return replay.bins; }
  /// One behind each segment but the last.
  std::uint32_t checkpoints() const { return replay.bins - 1; }
  /// The step after which the checkpoint is.
  std::uint32_t step(std::uint32_t checkpoint) const;
  /// Rows of a segment that find a cache of this budget full, over which its losses are means.
  std::uint32_t active_rows(std::size_t budget, std::uint32_t segment) const;
};

struct AgreementRequest {
  std::vector<BudgetRequest> budgets;
  std::uint32_t checkpoints = 32;  ///< at most n - 1
  double rbo_p = 0.9;
  std::uint64_t seed = 0;
  std::optional<std::vector<std::uint32_t>> layers;  ///< model indices; none: all recorded
  std::optional<std::vector<std::uint32_t>> heads;
};

/// Throws std::invalid_argument as plan_replay(), for a trace that holds some rows only, and for
/// one of a single token.
AgreementPlan plan_agreement(const TraceInfo& info, std::string_view trace,
                             const AgreementRequest& request);

/// The exact optimum at the same budgets: those of the plan first, then those that hold all tokens.
OptimumPlan plan_optimum(const TraceInfo& info, std::string_view trace,
                         const AgreementRequest& request);

/// Bytes that find_agreement() holds, roughly.
std::uint64_t estimated_bytes(const AgreementPlan& plan, unsigned threads);

}  // namespace kvreplay::agreement
