// The inner loops of BudgetLanes; see simulator/kernels.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvreplay {

constexpr std::uint32_t kTileRows = 8;   ///< rows that are replayed together
constexpr std::size_t kWordTokens = 64;  ///< tokens of a word of bits
constexpr std::size_t kGroup = 8;        ///< tokens that the kernels take at once: a byte of bits
/// A tile holds its rows as doubles, eight tokens of all rows after the other: weight j of row r is
/// at tile[(j / 8 * 8 + r) * 8 + j % 8], 0 where j > r's own token and in rows that there are not.
constexpr std::size_t kTileGroup = kTileRows * kGroup;
constexpr std::size_t kTileWord = kTileRows * kWordTokens;

/// Tiles, scores, weights and sums are aligned to 64 bytes, no number is NaN. Tile, `held`, `base`,
/// scores and `below` begin at the same word of tokens; of `held` and `base` token j is bit j % 64
/// of word j / 64, of `below` bit j % 8 of byte j / 8.
struct LaneKernels {
  /// Writes a row's weights, groups of eight of them, to its place in the tile, where `tile`
  /// begins.
  void (*load_row)(const float* weights, std::size_t groups, double* tile);

  /// Adds to sums[r * 8 + j % 8] the weight of each token j that is held and not in `base`, and
  /// subtracts that of each that is in `base` and not held, in order of j, for all rows of the
  /// tile.
  void (*add_changed)(const double* tile, const std::uint64_t* held, const std::uint64_t* base,
                      std::size_t words, double* sums);

  /// Adds scales[r] times row r to the scores, row by row. Where none of eight tokens is held it
  /// leaves them as they are; of others that are not held the scores mean nothing. Tells in `below`
  /// which scores are below `bound` then, of tokens that are held and maybe of others.
  void (*add_rows)(const double* tile, const double* scales, const std::uint64_t* held,
                   std::size_t words, double bound, double* scores, unsigned char* below);

  /// Adds `scale` times the weights to `count` scores, a multiple of 8. The place of the lowest of
  /// the first `eligible` then, of equals the first; at least one of these is not infinite.
  std::size_t (*add_and_find)(const double* weights, double scale, std::size_t count,
                              std::size_t eligible, double* scores);

  /// The token of the lowest weight among those of one row of the tile that are held, of equals the
  /// first; `row` is its place in the tile's first group. At least one is held.
  std::size_t (*find_lowest)(const double* row, const std::uint64_t* held, std::size_t words);
};

}  // namespace kvreplay
