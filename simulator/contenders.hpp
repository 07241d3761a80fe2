// The tokens of a lane (simulator/budget_lanes.hpp) among which the next ones to leave are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "simulator/lane_kernels.hpp"
#include "simulator/tile_rows.hpp"

namespace kvreplay {

/// The lowest scores of a lane's candidates at some row, and the tokens that become candidates at
/// the later rows of the tile. Only these are brought up to each row: as scores never fall,
/// whatever lies below all others' scores as they were lies below them as they are.
class Contenders {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  static constexpr std::size_t kFewest = kTileRows;  ///< as many as leave within a tile
  static constexpr std::size_t kWanted = 3 * kFewest / 2;

  /// Forgets all, and will take those whose score is below `bound`, or is `bound` if the token is
  /// below `bound_token`.
  void choose(double bound, std::uint32_t bound_token = 0);
  double bound() const { return bound_; }  ///< falls where there are too many: the lowest stay
  /// Takes those of a word of tokens whose bits are set, if below the bound. Words come in turn.
  void take(std::uint32_t first_token, std::uint64_t bits, const double* scores);
  /// No more are to be taken. False: these are few for a tile, and not all there are.
  bool settle();
  /// The token that becomes a candidate at the next row; kNever where it cannot leave.
  void enter(std::uint32_t token, double score);
  /// All rows from `from` on have had one enter.
  void load(const LaneKernels& kernels, const TileRows& rows, std::uint32_t from);

  /// Adds row `row` of the tile and finds the lowest of those that are candidates by then.
  void add_row(const LaneKernels& kernels, std::uint32_t row, double scale);
  /// False: one that is not here may be as low as the lowest.
  bool certain() const;
  bool empty() const { return size_ == 0; }  ///< but for those that entered
  /// The token of the lowest, which is none of them any more.
  std::uint32_t take_lowest() {
    scores_[lowest_] = kNever;
    return tokens_[lowest_];
  }

  /// About as many candidates as are wanted should be below this bound at the end of the tile.
  double next_bound() const;

 private:
  static constexpr std::size_t kMost = 3 * kFewest;
  static constexpr std::size_t kPlaces = kMost + kTileRows;

  bool below_bound(double score, std::uint32_t token) const {
    return score < bound_ || (score == bound_ && token < bound_token_);
  }
  /// Of kMost those that are wanted.
  void keep_lowest();

  // Who is not here comes behind this score, or has this one and a token that is not below this.
  double bound_ = kNever;
  std::uint32_t bound_token_ = 0;
  std::size_t size_ = 0;    // chosen
  double spread_ = 0;       // of their scores
  std::size_t places_ = 0;  // with those that enter, behind them
  std::uint32_t from_ = 0;  // row of the first that enters
  std::size_t lowest_ = 0;
  std::array<std::uint32_t, kPlaces> tokens_{};
  alignas(64) std::array<double, kPlaces> scores_{};
  alignas(64) std::array<float, kTileRows * kPlaces> weights_{};  // by row
};

}  // namespace kvreplay
