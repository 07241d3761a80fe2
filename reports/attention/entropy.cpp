#include "reports/attention/entropy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "traces/row_recorder.hpp"

namespace kvreplay::attention {
namespace {

void merge_samples(Samples& into, const Samples& from) {
  into.merge_sums(from.sums());
  into.merge_histogram(from.histogram());
}

}  // namespace

double entropy(const Row& row, Eigen::ArrayXf& scratch) {
  const auto tokens = static_cast<Eigen::Index>(row.weights.size());
  // Eigen's own memory: whether an entry goes through its vectors or not, which round apart, must
  // not depend on where an array happens to lie.
  if (scratch.size() < tokens) scratch.resize(2 * tokens);
  const Eigen::Map<const Eigen::ArrayXf> weights(row.weights.data(), tokens);
  // A weight of 0 adds 0 times a finite number.
  scratch.head(tokens) = weights * weights.max(std::numeric_limits<float>::min()).log();
  return std::max(0.0, std::log(row.sum) - sum({scratch.data(), row.weights.size()}) / row.sum);
}

void Entropies::merge(const Entropies& other) {
  merge_samples(nats, other.nats);
  merge_samples(perplexity, other.perplexity);
  merge_samples(share, other.share);
}

void EntropyStudy::look(const Row& row) {
  if (row.weights.size() < least_row_) return;
  const double nats = entropy(row, scratch_);
  found_.nats.add(nats);
  found_.perplexity.add(std::exp(nats));
  if (row.i > 0) found_.share.add(nats / std::log(static_cast<double>(row.weights.size())));
}

}  // namespace kvreplay::attention
