#include "simulator/samples.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvreplay {

void Histogram::reach(std::uint32_t key) {
  const std::uint32_t low = key / kGrain * kGrain;
  if (counts_.empty()) first_ = low;
  const std::uint32_t first = std::min(first_, low);
  const std::uint32_t end =
      std::max(first_ + static_cast<std::uint32_t>(counts_.size()), low + kGrain);
  if (first == first_ && end - first == counts_.size()) return;
  // Exactly as large as needed: a replay holds very many of these.
  std::vector<std::uint32_t> counts(end - first, 0);
  std::copy(counts_.begin(), counts_.end(), counts.begin() + (first_ - first));
  counts_.swap(counts);
  first_ = first;
}

std::uint64_t Histogram::bytes_between(double least, double most, Rounding rounding) {
  double grains = 1;
  if (rounding == Rounding::none) {
    grains += std::floor(most / kGrain) - std::floor(least / kGrain);
  } else {
    grains += std::ceil(std::log2(most)) - std::floor(std::log2(std::max(least, 0x1p-20)));
  }
  return static_cast<std::uint64_t>(grains) * kGrain * sizeof(std::uint32_t);
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
      return rounding_ == Rounding::none
                 ? static_cast<double>(key)
                 : static_cast<double>(std::bit_cast<float>(key << kDroppedBits));
    }
  }
  return 0;
}

std::vector<Octave> Histogram::octaves() const {
  std::vector<Octave> octaves;
  if (zeros_ > 0) octaves.push_back({0, zeros_});
  // Counts begin and end at whole octaves, of kGrain keys each.
  for (std::size_t i = 0; i < counts_.size(); i += kGrain) {
    const auto first = counts_.begin() + static_cast<std::ptrdiff_t>(i);
    const auto count = std::accumulate(first, first + kGrain, std::uint64_t{0});
    const auto key = first_ + static_cast<std::uint32_t>(i);
    if (count > 0) octaves.push_back({std::bit_cast<float>(key << kDroppedBits), count});
  }
  return octaves;
}

void Samples::merge_sums(const Sums& other) {
  sums_.count += other.count;
  sums_.sum += other.sum;
  sums_.min = std::min(sums_.min, other.min);
  sums_.max = std::max(sums_.max, other.max);
}

void Samples::clear() {
  sums_ = {};
  histogram_.clear();
}

Summary Samples::summary() const {
  if (sums_.count == 0) return {};
  const auto quantile = [this](double q) {
    return std::clamp(histogram_.quantile(q), sums_.min, sums_.max);
  };
  return {.count = sums_.count,
          .mean = sums_.sum / static_cast<double>(sums_.count),
          .p50 = quantile(0.5),
          .p95 = quantile(0.95),
          .p99 = quantile(0.99),
          .max = sums_.max};
}

}  // namespace kvreplay
