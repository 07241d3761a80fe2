#include "simulator/samples.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvreplay {

void Histogram::reach(std::uint32_t key) {
  constexpr std::uint32_t kGrain = 256;  // an octave at a time
  const std::uint32_t low = key / kGrain * kGrain;
  const std::uint32_t high = low + kGrain;
  if (counts_.empty()) {
    first_ = low;
    counts_.assign(kGrain, 0);
    return;
  }
  if (low < first_) {
    counts_.insert(counts_.begin(), first_ - low, 0);
    first_ = low;
  }
  if (high - first_ > counts_.size()) counts_.resize(high - first_, 0);
}

void Histogram::merge(const Histogram& other) {
  zeros_ += other.zeros_;
  if (other.counts_.empty()) return;
  const auto last = other.first_ + static_cast<std::uint32_t>(other.counts_.size()) - 1;
  reach(other.first_);
  reach(last);
  for (std::size_t i = 0; i < other.counts_.size(); ++i) {
    counts_[other.first_ - first_ + i] += other.counts_[i];
  }
}

void Histogram::clear() {
  std::fill(counts_.begin(), counts_.end(), 0);
  zeros_ = 0;
}

std::uint64_t Histogram::count() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{zeros_});
}

double Histogram::quantile(double q) const {
  const auto rank = static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(count())));
  std::uint64_t below = zeros_;
  if (below >= rank) return 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    if (below >= rank) {
      const auto key = first_ + static_cast<std::uint32_t>(i);
      return std::bit_cast<float>(key << kDroppedBits);
    }
  }
  return 0;
}

void Samples::merge_sums(std::uint64_t count, double sum, double max) {
  count_ += count;
  sum_ += sum;
  max_ = std::max(max_, max);
}

void Samples::clear() {
  count_ = 0;
  sum_ = 0;
  max_ = 0;
  histogram_.clear();
}

Summary Samples::summary() const {
  if (count_ == 0) return {};
  const auto quantile = [this](double q) { return std::min(histogram_.quantile(q), max_); };
  return {.count = count_,
          .mean = sum_ / static_cast<double>(count_),
          .p50 = quantile(0.5),
          .p95 = quantile(0.95),
          .p99 = quantile(0.99),
          .max = max_};
}

}  // namespace kvreplay
