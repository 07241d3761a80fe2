// What the cells of a replay lose beyond what any irreversible eviction must.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/optimum.hpp"
#include "simulator/replay.hpp"
#include "simulator/results.hpp"

namespace kvreplay {

/// The optima of a replay: of its prompt as the plan has it, which is the curve "optimum", and of
/// one attended in full where policies are defined so.
struct Against {
  struct Optimum {
    OptimumPlan plan;
    OptimumOutcome outcome;
  };
  std::vector<Optimum> optima;
  /// Where the least loss is that a cell is set against: which optimum, which of its budgets. None
  /// where it is held to other rules: nothing leaves for good, its queries may see more than the
  /// budget shows, or budgets are dealt out.
  struct Place {
    std::size_t optimum = 0;
    std::size_t budget = 0;
  };
  std::vector<std::optional<Place>> places;  ///< by cell

  bool whole() const;
  /// "of the optimum 3 of 8 heads are done".
  std::string done() const;
};

/// Why the optimum of the plan's prefill does not bound the losses of a cell; empty: it does.
std::string why_unbounded(const ReplayPlan& plan, const CellPlan& cell);

/// The loss of a policy and its parts, as means over the same steps and heads.
struct LossSplit {
  double loss = 0;              ///< of the policy
  double working_set_loss = 0;  ///< of the optimum: no eviction can avoid it at this budget
  double policy_loss() const { return loss - working_set_loss; }
  /// Of the mass that the optimum retains, what the policy does; 1 where there is none.
  double share_of_optimum() const {
    return working_set_loss < 1 ? (1 - loss) / (1 - working_set_loss) : 1;
  }
};

/// Throws std::invalid_argument where the trace holds some rows only.
Against plan_against(const ReplayPlan& plan);

/// Finds the optima. When stopped, some are not whole.
void find_optima(const RowSource& source, Against& against, unsigned threads,
                 const RunControl& control);

/// By cell, over all layers and heads; none where the cell has no place or no steps count.
std::vector<std::optional<LossSplit>> overall_splits(const ReplayPlan& plan,
                                                     const ReplayOutcome& outcome,
                                                     const Against& against);

/// Appends, at each place where `outcome` has a mean loss and the optimum is known,
/// share_of_optimum, policy_loss and working_set_loss of the cells, and the mass_loss of the policy
/// "optimum".
void add_rows(const ReplayPlan& plan, const ReplayOutcome& outcome, const Against& against,
              Results& results);

}  // namespace kvreplay
