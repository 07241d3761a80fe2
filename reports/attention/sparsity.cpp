#include "reports/attention/sparsity.hpp"

#include "reports/attention/token_bits.hpp"

namespace kvreplay::attention {

Sparsity& Sparsity::operator+=(const Sparsity& other) {
  rows += other.rows;
  entries += other.entries;
  below += other.below;
  return *this;
}

double Sparsity::share() const {
  return entries == 0 ? 0 : static_cast<double>(below) / static_cast<double>(entries);
}

SparsityStudy::SparsityStudy(const SparsityQuestion& question)
    : least_row_(question.least_row),
      rule_{.kind = NeededRule::Kind::threshold, .fraction = question.threshold},
      finder_(question.encoding) {}

void SparsityStudy::look(const Row& row) {
  const std::size_t tokens = row.weights.size();
  if (tokens < least_row_) return;
  needed_.resize(words_for(tokens));
  finder_.look(row.weights, row.sum);
  finder_.mark(rule_, needed_);
  ++found_.rows;
  found_.entries += tokens;
  found_.below += tokens - count_bits(needed_);
}

}  // namespace kvreplay::attention
