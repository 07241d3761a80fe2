// The inner loops of BudgetLanes, for each vector width of this kind of machine. Every width
// adds in the same order and rounds every product: the results are the same to the bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvreplay {

constexpr std::uint32_t kTileRows = 8;  ///< rows that are replayed together
constexpr std::uint32_t kWordTokens =
    64;  ///< tokens of a word of bits: as many scores are one piece

/// Some rows as doubles: weight j of row r at rows[r * stride + j], 0 where j > r's own token.
/// Zeros follow up to a whole word; aligned to 64 bytes, as the stride is.
struct RowTile {
  const double* rows = nullptr;
  std::size_t stride = 0;
  std::uint32_t size = 0;  ///< at most kTileRows
};

/// The first of the smallest of some numbers, and the smallest of the others.
struct Lowest {
  std::size_t place = 0;
  double others = 0;
};

struct LaneKernels {
  /// Adds to sums[r * 8 + j % 8] the weight of each token j that is held, in order of j, for all
  /// rows of the tile. `held` is the words of bits `first` to `last` - 1 of the tokens.
  void (*add_held)(const RowTile& tile, const std::uint64_t* held, std::size_t first,
                   std::size_t last, double* sums);

  /// Adds scales[r] times row r to the scores of one word of tokens, row by row, for the rows
  /// `first` to `last` - 1 of the tile whose weights of the word begin at tile.rows; where none of
  /// eight tokens is held it may leave them as they are. Returns the least of the first
  /// `candidates` scores, infinity where there is none.
  double (*add_rows)(const RowTile& tile, const double* scales, std::uint32_t first,
                     std::uint32_t last, std::uint64_t held, std::uint32_t candidates,
                     double* scores);

  /// `count` is a multiple of 8, `numbers` aligned to 64 bytes and none of them NaN.
  Lowest (*lowest)(const double* numbers, std::size_t count);

  /// The first of a word's scores that equals `score`, which one does.
  std::uint32_t (*place_of)(const double* scores, double score);

  const char* name;  ///< "AVX-512"
};

/// Those that this machine can run, the widest first; never empty.
std::span<const LaneKernels* const> lane_kernels();

extern const LaneKernels portable_lane_kernels;
extern const LaneKernels avx2_lane_kernels;
extern const LaneKernels avx512_lane_kernels;

}  // namespace kvreplay
