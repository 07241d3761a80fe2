// Mean, maximum and quantiles of very many samples in little memory.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace kvreplay {

/// How far a sample may be rounded before it is counted: to 9 significant bits, so by at most 2^-9
/// (0.2 %) of itself, or not at all, which takes whole numbers up to 2^24.
enum class Rounding { nine_bits, none };

/// How many samples lie from a power of two to below its double.
struct Octave {
  double from = 0;  ///< 0: of those that count as 0
  std::uint64_t count = 0;
};

/// Counts of rounded samples. Of those rounded to 9 bits the ones below 2^-20 count as 0. Counts do
/// not depend on the order in which samples come or histograms merge.
class Histogram {
 public:
  explicit Histogram(Rounding rounding = Rounding::nine_bits) : rounding_(rounding) {}

  /// `sample` is finite and not negative.
  void add(float sample, std::uint32_t times = 1) {
    std::uint32_t key = 0;
    if (rounding_ == Rounding::none) {
      key = static_cast<std::uint32_t>(sample);
    } else {
      key = (std::bit_cast<std::uint32_t>(sample) + kHalf) >> kDroppedBits;
      if (key < kLeastKey) {
        zeros_ += times;
        return;
      }
    }
    if (key - first_ >= counts_.size()) reach(key);
    counts_[key - first_] += times;
  }
  /// Once each. Not where samples are counted exactly.
  void add(std::span<const double> samples) {
    for (const double sample : samples) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(sample));
      const std::uint32_t key = (bits + kHalf) >> kDroppedBits;
      const bool zero = key < kLeastKey;
      if (!zero && key - first_ >= counts_.size()) reach(key);
      // No branch: which samples are 0 can hardly be foretold.
      std::uint32_t* const count = zero ? &zeros_ : counts_.data() + (key - first_);
      ++*count;
    }
  }
  /// Not where samples are counted exactly.
  void add_zeros(std::uint64_t count) { zeros_ += static_cast<std::uint32_t>(count); }
  /// `other` rounds alike.
  void merge(const Histogram& other);
  void clear();

  std::uint64_t count() const;
  /// The smallest value that at least the share `q` of the samples do not exceed.
  double quantile(double q) const;
  /// Those that hold samples, ascending. Not where samples are counted exactly.
  std::vector<Octave> octaves() const;

  /// Bytes of the counts of samples that lie between `least` and `most`, at most.
  static std::uint64_t bytes_between(double least, double most, Rounding rounding);

 private:
  static constexpr std::uint32_t kDroppedBits = 15;  // of 23, the rest makes 256 bins an octave
  static constexpr std::uint32_t kHalf = 1U << (kDroppedBits - 1);
  static constexpr std::uint32_t kLeastKey = (127U - 20) << (23 - kDroppedBits);  // 2^-20
  static constexpr std::uint32_t kGrain = 256;  // counts grow by an octave, or by 256 numbers

  void reach(std::uint32_t key);

  Rounding rounding_;
  std::uint32_t zeros_ = 0;
  std::uint32_t first_ = 0;  // the key of counts_[0]
  std::vector<std::uint32_t> counts_;
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

/// What a mean needs, and between which values the samples lie.
struct Sums {
  std::uint64_t count = 0;
  double sum = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = 0;
};

/// Quantiles never lie outside the samples: of equal ones they are exact.
class Samples {
 public:
  explicit Samples(Rounding rounding = Rounding::nine_bits) : histogram_(rounding) {}

  /// Many times only what is a whole number: their sum is that of as many additions.
  void add(double sample, std::uint32_t times = 1) {
    sums_.sum += times * sample;
    if (sample < sums_.min) sums_.min = sample;
    if (sample > sums_.max) sums_.max = sample;
    sums_.count += times;
    histogram_.add(static_cast<float>(sample), times);
  }
  /// Once each, in turn. Not where they are counted exactly.
  void add(std::span<const double> samples) {
    for (const double sample : samples) {
      sums_.sum += sample;
      sums_.min = sample < sums_.min ? sample : sums_.min;
      sums_.max = sample > sums_.max ? sample : sums_.max;
    }
    sums_.count += samples.size();
    histogram_.add(samples);
  }
  void add_zeros(std::uint64_t count) {
    if (count == 0) return;
    sums_.min = 0;
    sums_.count += count;
    histogram_.add_zeros(count);
  }
  /// Sums are added in the order of the calls: merge in a fixed order for fixed results.
  void merge_sums(const Sums& other);
  void merge_histogram(const Histogram& histogram) { histogram_.merge(histogram); }
  void clear();

  std::uint64_t count() const { return sums_.count; }
  double sum() const { return sums_.sum; }
  const Sums& sums() const { return sums_; }
  const Histogram& histogram() const { return histogram_; }
  Summary summary() const;

 private:
  Sums sums_;
  Histogram histogram_;
};

}  // namespace kvreplay
