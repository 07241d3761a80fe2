// Blocks of rows with what all cells share of them: sums and needed tokens, found once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "simulator/factored_row.hpp"
#include "simulator/needed.hpp"
#include "simulator/needed_rows.hpp"
#include "simulator/plan.hpp"
#include "traces/trace.hpp"

namespace kvreplay {

/// Row i of one head.
struct RowView {
  std::span<const float> weights;      ///< i + 1, or none where there are factors
  std::optional<FactoredRow> factors;  ///< where the plan takes only what queries see
  std::uint32_t step = 0;              ///< i, for messages, as are these:
  const ReplayPlan* plan = nullptr;
  const UnitPlan* unit = nullptr;
  std::size_t head = 0;  ///< of the unit
  double sum = 0;
  std::span<const float> values;  ///< [n][d]; empty unless the plan has values
  std::vector<double> output;     ///< what the query mixes from all of them: d, or empty
  NeededRows needed;              ///< what it needs, by the plan's rules

  /// Writes the weights of `tokens` into `out` (as many values) and returns their sum. Throws
  /// InputError where factors give what is no probability.
  double gather(std::span<const std::uint32_t> tokens, std::vector<float>& scratch,
                double* out) const;
};

class RowViews {
 public:
  /// `plan` outlives the views.
  explicit RowViews(const ReplayPlan& plan);

  /// Looks at the rows `block` of a unit, those that the trace holds. `slabs` holds, by head, rows
  /// laid out by RowLayout from row `slab_first` on, and outlives the views, as do `values`, by
  /// head, where the plan has them. Throws InputError for a row that is no probabilities.
  void look(const UnitPlan& unit, std::span<const std::span<const float>> slabs,
            std::uint32_t slab_first, RowRange block,
            std::span<const std::span<const float>> values = {});
  /// Looks at the same rows as the factors that they come of; `source` outlives the views.
  void look_at_factors(const UnitPlan& unit, const RowSource& source, RowRange block);

  /// Row i of the block, one view per head; none where the trace does not hold it.
  std::span<const RowView> row(std::uint32_t i) const {
    if (!plan_.sampling.holds(i)) return {};
    return std::span(views_).subspan((i - first_) * heads_, heads_);
  }
  /// What rows of the block need, of a unit's first head.
  NeededRows needed(RowRange rows) const { return needed_of(rows, 0); }

 private:
  NeededRows needed_of(RowRange rows, std::size_t head) const;

  const ReplayPlan& plan_;
  std::uint32_t first_measured_;  // no cell measures an earlier row
  std::uint32_t first_ = 0;
  std::size_t heads_ = 0;
  std::vector<RowView> views_;               // by row, then head
  std::size_t words_ = 0;                    // of the longest row's set
  std::vector<std::uint64_t> needed_;        // by row, head, rule
  std::vector<std::uint32_t> needed_sizes_;  // the same
  std::vector<NeededFinder> finders_;        // by head
};

}  // namespace kvreplay
