#include "reports/attention/persistence.hpp"

#include "reports/attention/token_bits.hpp"

namespace kvreplay::attention {

std::optional<double> Persistence::ratio() const {
  if (second == 0) return std::nullopt;
  return static_cast<double>(both) / second;
}

PersistenceStudy::PersistenceStudy(std::uint32_t tokens, Encoding encoding)
    : half_(tokens / 2),
      finder_(encoding),
      first_(words_for(half_), 0),
      second_(words_for(half_), 0) {}

void PersistenceStudy::look(const Row& row) {
  if (row.i >= 2 * half_) return;
  row_.resize(words_for(row.weights.size()));
  finder_.look(row.weights, row.sum);
  finder_.mark({.kind = NeededRule::Kind::mean}, row_);
  auto& of_half = row.i < half_ ? first_ : second_;
  const std::size_t words = std::min(row_.size(), of_half.size());
  for (std::size_t word = 0; word < words; ++word) of_half[word] |= row_[word];
  if (row.i == 0) return;  // its one token has all there is
  ++rows_;
  shares_ += static_cast<double>(count_bits(row_)) / static_cast<double>(row.weights.size());
}

Persistence PersistenceStudy::found() const {
  auto second = second_;
  second.back() &= (std::uint64_t{1} << (half_ % 64)) - 1;  // tokens below t only
  Persistence found;
  found.half = half_;
  found.first = static_cast<std::uint32_t>(count_bits(first_));
  found.second = static_cast<std::uint32_t>(count_bits(second));
  found.both = static_cast<std::uint32_t>(count_common(first_, second));
  if (rows_ > 0) found.of_row = shares_ / static_cast<double>(rows_);
  return found;
}

}  // namespace kvreplay::attention
