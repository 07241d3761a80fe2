// The sum of the weights in the last `window` rows, without a subtraction that could leave a
// residue. Rows are taken in blocks of `window`; when a block is full its rows turn into the sums
// from each of them to the block's end, so that every window is one such sum and what the block
// after it has gathered so far. A row costs a few operations per token whatever the window is; a
// token that leaves costs `window`, to clear what was remembered of it.
#pragma once

#include "policies/score.hpp"

namespace kvreplay {

class WindowRanking final : public NumberRanking {
 public:
  explicit WindowRanking(const Score& score);
  /// What it remembers of rows when `tokens` are held.
  static std::uint64_t bytes(const Score& score, std::uint64_t tokens) {
    return tokens * score.window * sizeof(double);
  }
  std::optional<std::size_t> state_bytes() const override;

 private:
  void update(const Held& held, std::span<const double> weights) override;
  Slot lowest(const Held& held, const SlotRange& candidates) override;
  void forget(Slot slot) override;

  Score score_;
  std::uint32_t row_ = 0;                   // of the block; the next to come
  std::vector<std::vector<double>> block_;  // [row][column]: a weight, or the sum from there on
  std::vector<double> gathered_;            // by column, of the block's rows so far
  std::vector<std::uint32_t> columns_;      // by slot
  std::vector<std::uint32_t> free_;         // columns that hold zeros
  std::vector<double> values_;              // scratch
};

}  // namespace kvreplay
