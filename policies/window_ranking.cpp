#include "policies/window_ranking.hpp"

#include "policies/set_score.hpp"

namespace kvreplay {

WindowRanking::WindowRanking(const Score& score)
    : NumberRanking(0), score_(score), block_(score.window) {}

std::optional<std::size_t> WindowRanking::state_bytes() const {
  return bytes(score_, columns_.size());
}

void WindowRanking::update(const Held& held, std::span<const double> weights) {
  while (columns_.size() < held.tokens.size()) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(gathered_.size()));
      gathered_.push_back(0);
      for (auto& row : block_) row.push_back(0);
    }
    columns_.push_back(free_.back());
    free_.pop_back();
  }
  if (held.step < score_.first_row) return;
  const bool ends = row_ + 1 == block_.size();
  auto& row = block_[row_];
  const auto scores = numbers();
  for (std::size_t slot = 0; slot < columns_.size(); ++slot) {
    const std::uint32_t column = columns_[slot];
    row[column] = slot < weights.size() ? weights[slot] : 0;
    gathered_[column] += row[column];
    scores[slot] = ends ? gathered_[column] : block_[row_ + 1][column] + gathered_[column];
  }
  ++row_;
  if (!ends) return;
  row_ = 0;
  gathered_.assign(gathered_.size(), 0);
  for (std::size_t at = block_.size() - 1; at > 0; --at) {
    for (std::size_t column = 0; column < gathered_.size(); ++column) {
      block_[at - 1][column] += block_[at][column];
    }
  }
}

Slot WindowRanking::lowest(const Held&, const SlotRange& candidates) {
  return lowest_of_set(score_.shape, numbers(), candidates, values_);
}

void WindowRanking::forget(Slot slot) {
  // Where it evicts first, the newcomer may leave before a row has given it a column.
  if (index(slot) >= columns_.size()) return;
  const std::uint32_t column = columns_[index(slot)];
  columns_.erase(columns_.begin() + index(slot));
  for (auto& row : block_) row[column] = 0;
  gathered_[column] = 0;
  free_.push_back(column);
}

}  // namespace kvreplay
