// Replays all budgets of a policy that ranks tokens alike at each of them, on one head, in one
// pass.
//
// Where the order does not depend on the budget the sets nest (Mattson et al., IBM Systems Journal
// 9(2), 1970): S_{k+1} is S_k and one more token, so that all sets are one stack of tokens. When a
// token has come, the smallest cache gives up its lowest one. The next larger cache holds that one
// too, and gives up it or its own further token, whichever is lower; and so on down the stack. What
// budget k sees of a row is a prefix sum over the stack. A step costs O(i), whatever the budgets.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "simulator/cell_samples.hpp"
#include "simulator/plan.hpp"
#include "simulator/row_views.hpp"

namespace kvreplay {

class BudgetStack {
 public:
  /// Whether a cell can be a budget of a stack: its policy's rule ranks alike at all budgets, over
  /// single heads of which all rows are held, and nothing is measured that takes needed sets, the
  /// policy or the weights of its tokens.
  static bool serves(const ReplayPlan& plan, const CellPlan& cell);
  /// Whether two cells that serve can be budgets of the same stack.
  static bool together(const CellPlan& one, const CellPlan& other);

  /// `cells` are numbers of cells of the plan that serve together, their budgets ascending; the
  /// plan outlives the stack.
  BudgetStack(const ReplayPlan& plan, std::span<const std::size_t> cells);

  /// Forgets everything. `column_sums` as in Setting; they outlive the run.
  void start(std::span<const double> column_sums);
  /// Of the budget in `place` at step i, for the caller.
  using AfterStep = std::function<void(std::size_t place, std::uint32_t i)>;
  /// `views` look at the rows of one head. Rows come in turn. `after`, where given, is called for
  /// each budget after each of them.
  void step(RowRange rows, const RowViews& views, const AfterStep& after = {});

  std::size_t size() const { return budgets_.size(); }
  std::size_t cell(std::size_t place) const { return budgets_[place].cell; }  ///< its number
  CellSamples& samples(std::size_t place) { return budgets_[place].samples; }
  const CellSamples& samples(std::size_t place) const { return budgets_[place].samples; }
  /// As Cell::zero_mass_rows().
  std::uint64_t zero_mass_rows(std::size_t place) const { return budgets_[place].zero_mass_rows; }

  /// Within AfterStep: the kept set, ascending, and what left.
  std::vector<std::uint32_t> kept(std::size_t place, std::uint32_t i) const;
  std::optional<std::uint32_t> evicted(std::size_t place) const { return budgets_[place].evicted; }

 private:
  struct Entry {
    double number = 0;
    std::uint32_t token = 0;

    /// The lowest leaves; of equals the oldest.
    bool below(const Entry& other) const {
      return number < other.number || (number == other.number && token < other.token);
    }
  };

  struct Budget {
    std::size_t cell;
    std::uint32_t tokens;
    bool divides;  ///< rows without visible mass are counted
    CellSamples samples;
    std::uint64_t zero_mass_rows = 0;
    // Of the last step:
    double visible_sum = 0;
    std::optional<std::uint32_t> evicted = {};
    std::uint64_t token_sum = 0;  // of what it keeps
  };

  bool protects(std::uint32_t token, std::uint32_t i) const {
    return token < rule_.sinks || i - token < rule_.recent;
  }
  void step_row(std::uint32_t i, const RowView& row, const AfterStep& after);
  Entry newcomer(std::uint32_t i, const RowView& row) const;
  void attend(std::uint32_t i, const RowView& row);
  void evict(std::uint32_t i, Entry newcomer);
  /// Into the smallest set, which is full; what it gives up for it.
  Entry exchange(std::uint32_t i, Entry newcomer);
  void measure(std::uint32_t i, const RowView& row, Budget& budget) const;

  LowestLeaves rule_;
  std::uint32_t smallest_;
  std::uint32_t largest_;
  std::vector<Budget> budgets_;  // ascending; those that a policy has no use for hold the same
  /// What the smallest set holds, in any order, then the further token of each larger one.
  std::vector<Entry> stack_;
  std::span<const double> column_sums_;
};

}  // namespace kvreplay
