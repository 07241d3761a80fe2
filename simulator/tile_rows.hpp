// The rows that lanes (simulator/budget_lanes.hpp) take together, as the kernels want them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "simulator/lane_kernels.hpp"
#include "simulator/row_views.hpp"

namespace kvreplay {

/// Rows where the trace has them, but for the words of tokens in which the tile's own ones are:
/// there rows end one after the other, and copies of them go on with zeros.
class TileRows {
 public:
  /// Up to kTileRows rows of one head; the views outlive the tile.
  void look(RowRange rows, const RowViews& views) {
    first_copied_ = rows.first / kWordTokens * kWordTokens;
    words_ = (rows.last - 1) / kWordTokens + 1;
    copies_ = {};
    for (std::uint32_t row = 0; row < kTileRows; ++row) {
      // Where there is no row any will do: nobody uses what comes of it.
      const bool exists = row < rows.size();
      const auto weights = views.row(exists ? rows.first + row : rows.first)[0].weights;
      rows_[row] = weights.data();
      if (!exists) continue;
      const auto last = weights.subspan(first_copied_);
      std::copy(last.begin(), last.end(), copies_[row].begin());
    }
  }

  /// Calls use(rows, first, words) for the words before the copied ones and for these.
  template <class Use>
  void for_each_part(Use use) const {
    const std::size_t whole = first_copied_ / kWordTokens;
    if (whole > 0) use(rows_.data(), std::size_t{0}, whole);
    std::array<const float*, kTileRows> copies;
    for (std::uint32_t row = 0; row < kTileRows; ++row) copies[row] = copies_[row].data();
    use(copies.data(), whole, words_ - whole);
  }
  /// The weight of a token of the tile or an earlier one in a row that there is; 0 where the row
  /// does not reach it.
  float weight(std::uint32_t row, std::uint32_t token) const {
    return token < first_copied_ ? rows_[row][token] : copies_[row][token - first_copied_];
  }
  /// The same of some tokens, a multiple of 8 and at most `apart`, for all rows: of token `at` to
  /// out[row * apart + at].
  template <std::size_t apart>
  void gather(const LaneKernels& kernels, std::span<const std::uint32_t> tokens, float* out) const {
    std::array<std::uint32_t, apart> early;
    for (std::size_t at = 0; at < tokens.size(); ++at) {
      early[at] = std::min(tokens[at], first_copied_);  // which all rows reach
    }
    kernels.gather(rows_.data(), early.data(), tokens.size(), out, apart);
    for (std::size_t at = 0; at < tokens.size(); ++at) {
      if (tokens[at] == early[at]) continue;
      for (std::uint32_t row = 0; row < kTileRows; ++row) {
        out[row * apart + at] = weight(row, tokens[at]);
      }
    }
  }

 private:
  std::uint32_t first_copied_ = 0;
  std::size_t words_ = 0;  // up to the tile's last token
  std::array<const float*, kTileRows> rows_{};
  // A tile may begin anywhere in a word, and end in the next.
  std::array<std::array<float, 2 * kWordTokens>, kTileRows> copies_{};
};

}  // namespace kvreplay
