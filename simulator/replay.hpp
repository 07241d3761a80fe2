// Replays a trace: every row is read once and shown to every policy at every budget.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <vector>

#include "simulator/plan.hpp"
#include "simulator/samples.hpp"
#include "traces/row_source.hpp"
#include "traces/run_control.hpp"

namespace kvreplay {

class SetsLog;

/// What was measured, for each cell and metric of the plan: cell * metrics + metric,
/// metrics as in Metrics.
struct ReplayOutcome {
  /// By unit of the plan, where its detail and scope ask for them; empty: not done.
  std::vector<std::vector<Summary>> units;
  /// By layer of the plan, over its done units, where its detail asks for them.
  std::vector<std::vector<Summary>> layers;
  std::vector<Summary> overall;
  std::vector<std::vector<Octave>> octaves;  ///< as overall; empty of metrics without
  /// By cell, bin and stepwise metric, over all steps of all heads: cell, then bin, then metric.
  std::vector<Summary> series;
  std::vector<std::uint64_t> zero_mass_rows;  ///< by cell, see Cell
  std::uint64_t units_done = 0;
  std::vector<bool> done;  ///< by unit of the plan
};

/// Units run in parallel on `threads` threads, where there are fewer of them the cells of each do
/// too; the outcome does not depend on how many, times of policies apart. When
/// stopped, returns what the units done so far say. `sets`, where given, gets the kept set of every
/// step of which the row is held. Throws InputError for rows that are not probabilities.
ReplayOutcome replay(const RowSource& source, const ReplayPlan& plan, unsigned threads,
                     const RunControl& control, SetsLog* sets = nullptr);

/// Rows that replay() goes through and reports: all of them, twice where a policy needs their sums
/// first.
std::uint64_t rows_read(const ReplayPlan& plan);

/// The model indices of the layers, in the order of ReplayOutcome::layers.
std::vector<std::uint32_t> layers_of(const ReplayPlan& plan);

/// Bytes that replay() and the result rows of its outcome will hold at most, roughly.
std::uint64_t estimated_bytes(const ReplayPlan& plan, unsigned threads);

}  // namespace kvreplay
