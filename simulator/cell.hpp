// One policy at one budget on one unit: the host of policies/policy.hpp, and what it measures; see
// simulator/metrics.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "policies/policy.hpp"
#include "simulator/cell_samples.hpp"
#include "simulator/kept_set.hpp"
#include "simulator/plan.hpp"
#include "simulator/policy_clock.hpp"
#include "simulator/row_views.hpp"

namespace kvreplay {

/// Scratch space that the cells of one thread share.
struct Workspace {
  explicit Workspace(const ReplayPlan& plan)
      : weights(plan.tokens),
        shared_weights(plan.tokens),
        output(plan.values ? plan.head_size : 0) {}
  std::vector<float> row;              ///< of one head, what its query sees
  std::vector<double> weights;         ///< of one head
  std::vector<double> shared_weights;  ///< pooled over the unit's heads
  std::vector<double> output;          ///< what one head mixes from visible values
  std::vector<std::uint32_t> chosen;
};

class Cell {
 public:
  /// Both outlive the cell.
  Cell(const ReplayPlan& plan, const CellPlan& cell);

  /// Forgets everything and makes a new policy for a unit of the plan. `column_sums` as in Setting;
  /// `vectors` are of the unit where the plan has them.
  void start(std::size_t unit, std::span<const double> column_sums,
             const HeadVectors::Sequence& vectors = {});
  /// `rows` are row i of the unit's heads, i = 0, 1, 2, ... in turn; none where the trace does not
  /// hold it: then nothing is measured, and a choice that takes the row is not made.
  void step(std::uint32_t i, std::span<const RowView> rows, Workspace& workspace);
  /// After the last step.
  void finish() { samples_.finish(); }
  /// The union of the sets that the heads of a group hold after step i, into the samples of the
  /// first.
  static void measure_union(std::uint32_t i, std::span<Cell> heads);

  std::span<const Samples> samples() const { return samples_.samples(); }
  std::span<Samples> bin() { return samples_.bin(); }  ///< see CellSamples
  /// Rows without visible mass, which could not be renormalised and added 0 to every score.
  std::uint64_t zero_mass_rows() const { return zero_mass_rows_; }

  std::span<const std::uint32_t> kept() const { return kept_.tokens(); }
  std::span<const std::uint32_t> evicted() const { return evicted_; }  ///< at the last step

 private:
  void step_cache(std::uint32_t i, std::span<const RowView> rows, Workspace& workspace);
  void step_choice(std::uint32_t i, std::span<const RowView> rows, Workspace& workspace);
  /// Query i sees the kept tokens: measures that, and returns what the policy may observe of it.
  std::span<const double> attend(std::uint32_t i, std::span<const RowView> rows, RowForm form,
                                 Workspace& workspace);
  /// The raw rows, pooled.
  std::span<const double> pool(std::span<const RowView> rows, Workspace& workspace) const;
  void evict(std::uint32_t i);
  void check_choice(std::uint32_t i, std::span<const std::uint32_t> chosen) const;
  void measure_output(const RowView& row, std::span<const double> weights, double visible_sum,
                      std::span<double> output);
  void measure_set(std::uint32_t i, std::uint32_t visible, std::optional<double> turnover) {
    samples_.add_set(i, kept_.size(), kept_.sum(), visible, turnover);
  }
  void measure_cost();

  const ReplayPlan& plan_;
  const CellPlan& cell_;
  std::uint32_t full_rows_;  // rows of the prompt that see all before them
  // What the policy may see; behind a pointer of its own because cells move and it must not.
  std::unique_ptr<HeadVectors> vectors_;
  std::unique_ptr<CachePolicy> cache_;
  std::unique_ptr<RowChoice> choice_;
  KeptSet kept_;
  TokenBits before_;           // what a RowChoice saw at the step before
  bool before_known_ = false;  // whether it chose at the step before
  std::vector<std::uint32_t> evicted_;
  PolicyClock clock_;
  CellSamples samples_;
  std::uint64_t zero_mass_rows_ = 0;
};

}  // namespace kvreplay
