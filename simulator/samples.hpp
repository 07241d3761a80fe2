// Mean, maximum and quantiles of very many samples in little memory.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace kvreplay {

/// Counts of samples, each rounded to 9 significant bits. So a quantile is off by at most 2^-9
/// (0.2 %) of itself and exact for whole numbers up to 512 and for 0, 1/4, 1/2, 3/4, 1. Samples
/// below 2^-20 count as 0. Counts do not depend on the order in which samples come or histograms
/// merge.
class Histogram {
 public:
  /// `sample` is finite and not negative.
  void add(float sample) {
    const std::uint32_t key = (std::bit_cast<std::uint32_t>(sample) + kHalf) >> kDroppedBits;
    if (key < kLeastKey) {
      ++zeros_;
      return;
    }
    if (key - first_ >= counts_.size()) reach(key);
    ++counts_[key - first_];
  }
  void merge(const Histogram& other);
  void clear();

  std::uint64_t count() const;
  /// The smallest value that at least the share `q` of the samples do not exceed.
  double quantile(double q) const;

 private:
  static constexpr std::uint32_t kDroppedBits = 15;  // of 23, the rest makes 256 bins an octave
  static constexpr std::uint32_t kHalf = 1U << (kDroppedBits - 1);
  static constexpr std::uint32_t kLeastKey = (127U - 20) << (23 - kDroppedBits);  // 2^-20

  void reach(std::uint32_t key);

  std::uint32_t first_ = 0;  // the key of counts_[0]
  std::vector<std::uint32_t> counts_;
  std::uint32_t zeros_ = 0;
};

/// What is reported of a set of samples.
struct Summary {
  std::uint64_t count = 0;
  double mean = 0;
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
  double max = 0;
};

class Samples {
 public:
  void add(double sample) {
    sum_ += sample;
    if (sample > max_) max_ = sample;
    ++count_;
    histogram_.add(static_cast<float>(sample));
  }
  /// Sums are added in the order of the calls: merge in a fixed order for fixed results.
  void merge_sums(std::uint64_t count, double sum, double max);
  void merge_histogram(const Histogram& histogram) { histogram_.merge(histogram); }
  void clear();

  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }
  double max() const { return max_; }
  const Histogram& histogram() const { return histogram_; }
  Summary summary() const;

 private:
  std::uint64_t count_ = 0;
  double sum_ = 0;
  double max_ = 0;
  Histogram histogram_;
};

}  // namespace kvreplay
