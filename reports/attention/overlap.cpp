#include "reports/attention/overlap.hpp"

#include <algorithm>

#include "reports/attention/token_bits.hpp"

namespace kvreplay::attention {

Overlap& Overlap::operator+=(const Overlap& other) {
  pairs += other.pairs;
  shared += other.shared;
  chance += other.chance;
  return *this;
}

namespace {

/// The rows that are looked back to, and the row itself.
std::size_t slots(const OverlapQuestion& question, std::uint32_t tokens) {
  return std::min<std::size_t>(
      tokens, std::size_t{1} + *std::max_element(question.lags.begin(), question.lags.end()));
}

}  // namespace

std::uint64_t remembered_bytes(const OverlapQuestion& question, std::uint32_t tokens) {
  return question.budgets.size() * slots(question, tokens) *
         (words_for(tokens) * sizeof(std::uint64_t) + sizeof(std::vector<std::uint64_t>));
}

OverlapStudy::OverlapStudy(const OverlapQuestion& question, std::uint32_t tokens)
    : question_(question),
      slots_(slots(question, tokens)),
      rows_(slots_, 0),
      sets_(question.budgets.size() * slots_),
      finder_(question.encoding),
      found_(question.budgets.size() * question.lags.size()) {}

void OverlapStudy::look(const Row& row) {
  rows_[row.i % slots_] = row.i + 1;
  bool looked = false;
  for (std::size_t budget = 0; budget < question_.budgets.size(); ++budget) {
    const std::uint32_t k = question_.budgets[budget];
    if (row.i < k) continue;
    if (!looked) finder_.look(row.weights, row.sum);
    looked = true;
    auto& here = selected(budget, row.i);
    here.resize(words_for(row.weights.size()));
    finder_.mark({.kind = NeededRule::Kind::top, .count = k}, here);
    for (std::size_t lag = 0; lag < question_.lags.size(); ++lag) {
      const std::uint32_t back = question_.lags[lag];
      if (row.i < k + std::uint64_t{back}) continue;
      const std::uint32_t before = row.i - back;
      if (rows_[before % slots_] != before + 1) continue;  // that row gave nothing
      auto& found = found_[budget * question_.lags.size() + lag];
      ++found.pairs;
      found.shared += static_cast<double>(count_common(selected(budget, before), here)) / k;
      found.chance += k / static_cast<double>(row.weights.size());
    }
  }
}

}  // namespace kvreplay::attention
