// The inner loops of BudgetLanes; see simulator/kernels.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvreplay {

constexpr std::uint32_t kTileRows = 16;  ///< rows that are replayed together
constexpr std::size_t kWordTokens = 64;  ///< tokens of a word of bits
constexpr std::size_t kGroup = 8;        ///< tokens that the kernels take at once: a byte of bits

/// One lane's scores for LaneKernels::add_rows.
struct LaneScores {
  const double* scales;  ///< of each row
  const std::uint64_t* held;
  double bound;
  double* scores;
  unsigned char* below;
};

/// Scores and sums are aligned to 64 bytes. Rows are kTileRows pointers; they, `held`, `base`,
/// scores and `below` begin at the same word of tokens, and rows can be read to the last word's
/// end. Of `held` and `base` token j is bit j % 64 of word j / 64, of `below` bit j % 8 of byte
/// j / 8. No weight that is read is NaN, but for what find_lowest() reads of tokens not held.
struct LaneKernels {
  /// Adds to sums[r * 8 + j % 8] the weight in row r of each token j that is held and not in
  /// `base`, and subtracts that of each that is in `base` and not held, in order of j.
  void (*add_changed)(const float* const* rows, const std::uint64_t* held,
                      const std::uint64_t* base, std::size_t words, double* sums);

  /// Adds to the scores of each lane scales[r] times row r, row by row; of tokens that are not held
  /// the scores mean nothing. Tells in `below` which scores are below `bound` then, of tokens that
  /// are held and maybe of others. Fastest where later lanes hold what earlier ones do, and more.
  void (*add_rows)(const float* const* rows, const LaneScores* lanes, std::size_t count,
                   std::size_t words);

  /// Writes to out[r * apart + at] the weight in row r of token `at` of `count`, a multiple of 8;
  /// all rows reach all of these tokens.
  void (*gather)(const float* const* rows, const std::uint32_t* tokens, std::size_t count,
                 float* out, std::size_t apart);

  /// Adds `scale` times the weights to `count` scores, a multiple of 8. The place of the lowest of
  /// the first `eligible` then, of equals the first; at least one of these is not infinite.
  std::size_t (*add_and_find)(const float* weights, double scale, std::size_t count,
                              std::size_t eligible, double* scores);

  /// The token of the lowest weight in a row among those that are held, of equals the first. At
  /// least one is held.
  std::size_t (*find_lowest)(const float* row, const std::uint64_t* held, std::size_t words);
};

}  // namespace kvreplay
