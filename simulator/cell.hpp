// One policy at one budget on one unit: the host of policies/policy.hpp, and what it measures.
//
// Per head and step (r: the part of the row's sum that V_i holds)
//   mass_loss       1 - r
//   miss_RULE       share of the needed set that V_i lacks; a row that needs nothing has no sample
// and per unit and step, of the set S_i after the step,
//   kept            |S_i|
//   visible         |V_i|
//   turnover        |S_{i-1} \ S_i| / |S_{i-1}|: the share of the kept set that left at this step
//   age             mean of i - j over the tokens j of S_i
// For a RowChoice S_i is what row i saw besides itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "policies/policy.hpp"
#include "simulator/kept_set.hpp"
#include "simulator/plan.hpp"
#include "simulator/row_views.hpp"
#include "simulator/samples.hpp"

namespace kvreplay {

/// In the order in which Cell::samples() holds them.
std::vector<std::string> metric_names(const std::vector<NeededRule>& needed);
/// One for each of these, still empty. Sizes of sets are counted exactly.
std::vector<Samples> no_samples(const std::vector<NeededRule>& needed);

/// Scratch space that the cells of one thread share.
struct Workspace {
  explicit Workspace(std::uint32_t tokens) : weights(tokens), shared_weights(tokens) {}
  std::vector<double> weights;         ///< one head's visible weights
  std::vector<double> shared_weights;  ///< pooled over the unit's heads
  std::vector<std::uint32_t> chosen;
};

class Cell {
 public:
  /// Both outlive the cell.
  Cell(const ReplayPlan& plan, const CellPlan& cell);

  /// Forgets everything and makes a new policy for a unit of the plan. `column_sums` as in Setting.
  void start(std::size_t unit, std::span<const double> column_sums);
  /// `rows` are row i of the unit's heads, i = 0, 1, 2, ... in turn.
  void step(std::uint32_t i, std::span<const RowView> rows, Workspace& workspace);

  std::span<const Samples> samples() const { return samples_; }
  /// Rows without visible mass, which could not be renormalised and added 0 to every score.
  std::uint64_t zero_mass_rows() const { return zero_mass_rows_; }

  std::span<const std::uint32_t> kept() const { return kept_.tokens(); }
  std::span<const std::uint32_t> evicted() const { return evicted_; }  ///< at the last step

 private:
  bool measures(std::uint32_t i) const { return i >= first_measured_; }
  void step_cache(std::uint32_t i, std::span<const RowView> rows, Workspace& workspace);
  void step_choice(std::uint32_t i, std::span<const RowView> rows, Workspace& workspace);
  void evict(std::uint32_t i);
  void check_choice(std::uint32_t i, std::span<const std::uint32_t> chosen) const;
  void measure_row(const RowView& row, double visible_sum);
  void measure_whole_row(const RowView& row);
  void measure_set(std::uint32_t i, std::uint32_t visible, double turnover);

  const ReplayPlan& plan_;
  const CellPlan& cell_;
  std::uint32_t first_measured_;
  std::uint32_t full_rows_;  // rows of the prompt that see all before them
  std::unique_ptr<CachePolicy> cache_;
  std::unique_ptr<RowChoice> choice_;
  KeptSet kept_;
  TokenBits before_;  // what a RowChoice saw at the step before
  std::vector<std::uint32_t> evicted_;
  std::vector<Samples> samples_;
  std::uint64_t zero_mass_rows_ = 0;
};

}  // namespace kvreplay
