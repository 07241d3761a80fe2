// Replays many budgets of the policies that go by the lowest sum or the lowest weight in the last
// row (policies/policy.hpp, LowestLeaves) on one head, a few rows at a time, which all of them
// share.
//
// A lane is one cell. Rows come in tiles of kTileRows. At the start of a tile every lane sums all
// of them over what it holds: as budgets of one policy hold nearly the same, it adds to the next
// one's sums what that lacks and subtracts what it has more. Of what it evicts within the tile it
// takes the weights out of the later sums. What leaves within a tile is found among the lowest
// scores at its start, the contenders: only these are brought up to each row, all others at the
// tile's end. A lane that goes by the last row has no scores and looks for the lowest weight in
// each. Until its cache is full a lane has lost nothing, and all have the same scores: those are
// computed once.
#pragma once

#include <tbb/cache_aligned_allocator.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "simulator/cell_samples.hpp"
#include "simulator/contenders.hpp"
#include "simulator/kept_set.hpp"
#include "simulator/kernels.hpp"
#include "simulator/needed_rows.hpp"
#include "simulator/plan.hpp"
#include "simulator/row_views.hpp"
#include "simulator/tile_rows.hpp"

namespace kvreplay {

class BudgetLanes {
 public:
  /// Whether a cell can be a lane: its policy goes by the lowest sum or last weight, over single
  /// heads of which all rows are held and nothing is measured that takes the policy or the weights
  /// of its tokens.
  static bool serve(const ReplayPlan& plan, const CellPlan& cell);

  /// Cells that serve, in chains of budgets of one policy that are summed by one another: lanes
  /// that take whole ones, in this order, measure the same to the bit, whichever they are.
  static std::vector<std::vector<std::size_t>> chains(const ReplayPlan& plan,
                                                      std::span<const std::size_t> cells);

  /// `cells` are numbers of cells of the plan that serve; the plan outlives the lanes.
  BudgetLanes(const ReplayPlan& plan, std::span<const std::size_t> cells,
              const LaneKernels& kernels = available_kernels().front()->lanes);

  /// Forgets everything.
  void start();
  /// Of lane `lane` at step i, for the caller.
  using AfterStep = std::function<void(std::size_t lane, std::uint32_t i)>;
  /// `views` look at the rows of one head. Rows come in turn. `after`, where given, is called for
  /// each of the rows of a lane in turn.
  void step(RowRange rows, const RowViews& views, const AfterStep& after = {});
  /// After the last step.
  void finish();

  std::size_t size() const { return lanes_.size(); }
  std::size_t cell(std::size_t lane) const { return lanes_[lane].cell; }  ///< its number
  CellSamples& samples(std::size_t lane) { return lanes_[lane].samples; }
  const CellSamples& samples(std::size_t lane) const { return lanes_[lane].samples; }
  /// As Cell::zero_mass_rows().
  std::uint64_t zero_mass_rows(std::size_t lane) const { return lanes_[lane].zero_mass_rows; }

  /// Within AfterStep, of its lane and step: the kept set, and what left.
  std::vector<std::uint32_t> kept(std::size_t lane, std::uint32_t i) const;
  std::optional<std::uint32_t> evicted(std::size_t lane) const {
    const std::uint32_t token = lanes_[lane].left[row_];
    return token == CellSamples::kNone ? std::nullopt : std::optional(token);
  }

 private:
  template <class Number>
  using Aligned = std::vector<Number, tbb::cache_aligned_allocator<Number>>;

  /// Tokens, and what the rows of a tile give those of its start.
  struct Summed {
    std::uint32_t size = 0;
    TokenBits held = {};                       // those of the tile that are still to come, too
    std::array<double, kTileRows> row_sums{};  // by row
  };

  struct Scores {
    Aligned<double> by_token = {};
    std::array<double, kTileRows> scales{};  // of rows that are still to be added
    std::vector<unsigned char> below = {};   // see LaneKernels::add_rows
  };

  struct Lane {
    Lane(const ReplayPlan& plan, std::size_t number);

    std::size_t cell;
    std::optional<std::size_t> next = {};  // lane of its chain
    std::uint32_t capacity;
    LowestLeaves rule;
    bool sums;  // it has scores
    bool renormalised;
    bool holds_all;  // then nobody asks what its rows would come to
    CellSamples samples;
    std::uint64_t zero_mass_rows = 0;
    std::array<std::uint32_t, kTileRows> left{};  // behind each row, or CellSamples::kNone
    std::array<CacheStep, kTileRows> steps = {};

    // All that follows means something from the tile on in which the cache is over capacity.
    bool filled = false;
    Summed tokens = {};
    std::uint64_t token_sum = 0;  // of their numbers
    Scores scores = {};
    std::array<double, kTileRows> visible_sums{};  // by row: of the tokens, less what left since
    Contenders contenders = {};
  };

  static bool has_scores(const Lane& lane) { return lane.filled && lane.sums; }
  void step_tile(RowRange rows, const RowViews& views, const AfterStep& after);
  void fill(Lane& lane, std::uint32_t first);
  void sum_held(RowRange rows, const RowViews& views);
  /// What a lane's sums are more than those of its base.
  std::array<double, kTileRows> changed_sums(const Lane& lane) const;
  /// A set that differs little from what a lane holds: that of the next budget, all, or none.
  const Summed& base_of(const Lane& lane) const;
  void step_lane(Lane& lane, std::uint32_t i, std::uint32_t row, const RowView& view);
  double visible_sum(const Lane& lane, std::uint32_t i, std::uint32_t row,
                     const RowView& view) const;
  /// Of rows from row `row` of the tile on, behind them.
  static void measure_needed(Lane& lane, std::uint32_t row, const NeededRows& needed,
                             const NeededBySome& some);
  /// What some rows of a tile need.
  NeededBySome needed_by_some(const NeededRows& needed);
  void evict(Lane& lane, std::uint32_t i, std::uint32_t row, const RowView& view);
  /// The token that leaves: of the lowest score, of the lowest weight.
  std::uint32_t lowest_sum(Lane& lane, std::uint32_t i, std::uint32_t row);
  std::uint32_t lowest_weight(const Lane& lane, std::uint32_t i, const RowView& view);
  [[noreturn]] void none_may_leave(const Lane& lane, std::uint32_t i) const;
  /// The tokens of a word below `candidates` that may leave.
  std::uint64_t may_leave(const Lane& lane, std::size_t word, std::uint32_t candidates) const;
  /// Lists scores for add_rows().
  void list(Scores& scores, const TokenBits& held, double bound);
  /// Adds the tile's rows to all that is listed, and empties the list.
  void add_rows();
  /// Calls use(first_token, bits) for the words below `candidates` with tokens that may leave.
  template <class Use>
  void for_each_candidate(const Lane& lane, std::uint32_t candidates, Use use) const;
  /// Takes contenders among the tokens below `candidates` that add_rows() found below the bound.
  void take_contenders(Lane& lane, std::uint32_t candidates) const;
  /// Takes as many as are wanted; scores are brought up.
  void choose_contenders(Lane& lane, std::uint32_t candidates);
  /// Of the rows from `from` of a tile on that begins with row `first`.
  void enter_contenders(Lane& lane, std::uint32_t first, std::uint32_t from) const;
  void end_tile(RowRange rows);
  /// Lists the scores of lanes that are not filled, where there are such.
  void list_unevicted(RowRange rows, bool renormalised);

  const ReplayPlan& plan_;
  const LaneKernels& kernels_;
  std::vector<Lane> lanes_;
  std::vector<std::size_t> by_capacity_;  // numbers of lanes
  std::uint32_t row_ = 0;                 // of the tile: that of the last step
  TileRows tile_;
  Summed all_;
  Summed none_;
  std::vector<LaneScores> listed_;
  std::vector<double> lowest_;           // scratch
  std::vector<std::uint64_t> eligible_;  // scratch
  std::vector<std::uint64_t> needed_by_some_;
  std::array<Scores, 2> unevicted_;  // of raw and of renormalised rows where nothing left
};

}  // namespace kvreplay
