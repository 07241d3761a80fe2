// What one cell measures on one unit, step by step; see simulator/metrics.hpp.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "simulator/kept_set.hpp"
#include "simulator/kernels.hpp"
#include "simulator/metrics.hpp"
#include "simulator/needed_rows.hpp"
#include "simulator/plan.hpp"
#include "simulator/regret.hpp"
#include "simulator/row_views.hpp"
#include "simulator/samples.hpp"

namespace kvreplay {

/// A step of a cache that one token may leave for good, behind a row that sees all it held.
struct CacheStep {
  double row_sum = 0;
  double visible_sum = 0;           ///< row_sum where the row sees everything
  std::uint64_t sum_of_tokens = 0;  ///< of their numbers, of the set after the step
  std::uint32_t visible = 0;
  bool evicts = false;
  bool evicts_older = false;  ///< than the newcomer

  std::uint32_t kept() const { return evicts ? visible - 1 : visible; }
  bool as_large_as(const CacheStep& other) const {
    return visible == other.visible && evicts == other.evicts;
  }
};

class CellSamples {
 public:
  /// Both outlive the object.
  CellSamples(const ReplayPlan& plan, const CellPlan& cell);

  /// Forgets everything.
  void start();
  /// What follows is of step i.
  void begin(std::uint32_t i) {
    held_ = plan_.sampling.holds(i);
    counts_ = held_ && i >= first_measured_;
  }
  /// Whether the step is measured at all, and whether statistics go over it.
  bool measured() const { return counts_ || (held_ && !bin_.empty()); }
  bool counts() const { return counts_; }
  std::uint32_t first_measured() const { return first_measured_; }
  /// Whether any of the steps before `end` is measured.
  bool measured_before(std::uint32_t end) const { return end > first_measured_ || !bin_.empty(); }

  /// Of a step that is measured: of a row, `visible_sum` of which falls on what the query sees;
  /// `held` are these tokens, and maybe later ones.
  void add_row(const RowView& row, double visible_sum, const TokenBits& held);
  /// Of a row that sees everything.
  void add_whole_row(const RowView& row);
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  /// What add_row() adds of needed sets, of up to kTileRows rows; `some` is of these. `left`: what
  /// left behind each row, or kNone, and `held` what was left behind the last one, and maybe later
  /// tokens. Or, where evicted() is told what leaves, `left` is empty and `held` what the row sees.
  void add_misses(const NeededRows& needed, const NeededBySome& some, const TokenBits& held,
                  std::span<const std::uint32_t> left);
  /// What add_whole_row() adds of needed sets.
  void add_no_misses(const NeededRows& needed);
  /// The rest of what all steps from step `first` on add, whether they are measured or not.
  void add_steps(std::uint32_t first, std::span<const CacheStep> steps);
  void add_output_error(double error) { add(metrics_.output_error(), error); }
  /// The set after the step and how many tokens were visible in it. `turnover`: none where it is
  /// not known.
  void add_set(std::uint32_t i, std::uint32_t kept, std::uint64_t sum_of_tokens,
               std::uint32_t visible, std::optional<double> turnover);
  /// An eviction that statistics go over.
  void evicted(std::uint32_t i, std::uint32_t token) { regret_.evicted(i, token); }
  /// Of a step that counts.
  void add_counted(std::size_t metric, double sample) { samples_[metric].add(sample); }
  /// After the last step: counts regrets and delays, as what was never needed again is known now.
  void finish();

  const Metrics& metrics() const { return metrics_; }
  std::span<const Samples> samples() const { return samples_; }
  /// Of the stepwise metrics, where the plan has bins: of all steps since this was last emptied.
  std::span<Samples> bin() { return bin_; }

 private:
  void add(std::size_t metric, double sample) {
    if (counts_) samples_[metric].add(sample);
    if (!bin_.empty()) bin_[metric].add(sample);
  }

  static double loss_of(double row_sum, double visible_sum);
  void add_steps(std::span<const CacheStep> steps, std::uint32_t first, std::vector<Samples>& to);

  const ReplayPlan& plan_;
  const NeededKernels* kernels_;
  Metrics metrics_;
  std::uint32_t first_measured_;
  Regret regret_;
  bool held_ = false;    // by the trace
  bool counts_ = false;  // the step belongs to the steps that statistics are over
  std::vector<Samples> samples_;
  std::vector<Samples> bin_;
  TokenBits before_;                    // scratch: a set before some left
  std::vector<std::uint32_t> missing_;  // scratch: by row, then rule
};

}  // namespace kvreplay
