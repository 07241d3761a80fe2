// The largest of many weights that are not negative, by number or by mass, without sorting them.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace kvreplay {

/// Weights fall into buckets an eighth of an octave wide, so that only one bucket is looked into.
/// Keeps its scratch space between calls.
template <class Weight>
class Selection {
 public:
  static constexpr std::size_t kBuckets = 2048;  // 256 exponents of a float, 8 buckets each

  static std::size_t bucket(Weight weight) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(weight)) >> 20 &
           (kBuckets - 1);  // no sign: -0
  }

  /// The weight that has rank k (1-based) from the top, and how many of the k largest equal it: the
  /// others are all above it. Requires 1 <= k <= weights.size().
  struct Rank {
    Weight weight;
    std::uint32_t equals;
  };
  Rank kth_largest(std::span<const Weight> weights, std::uint32_t k) {
    counts_.fill(0);
    for (const Weight weight : weights) ++counts_[bucket(weight)];
    std::size_t crossing = kBuckets - 1;
    std::uint32_t wanted = k;  // among the members of the crossing bucket
    while (counts_[crossing] < wanted) wanted -= counts_[crossing--];
    members_.clear();
    for (const Weight weight : weights) {
      if (bucket(weight) == crossing) members_.push_back(weight);
    }
    const auto at = members_.begin() + (wanted - 1);
    std::nth_element(members_.begin(), at, members_.end(), std::greater<>());
    const auto above = std::count_if(members_.begin(), at, [&](Weight w) { return w > *at; });
    return {*at, wanted - static_cast<std::uint32_t>(above)};
  }

  /// The same for the fewest of the largest weights whose sum reaches `sum`; all weights where
  /// their sum falls short of it. None belong where sum <= 0.
  Rank reaching(std::span<const Weight> weights, double sum) {
    if (!(sum > 0)) return {std::numeric_limits<Weight>::infinity(), 0};
    sum *= 1 - 1e-12;  // the order of addition must not decide
    masses_.fill(0);
    for (const Weight weight : weights) masses_[bucket(weight)] += weight;
    std::size_t crossing = kBuckets - 1;
    while (crossing > 0 && masses_[crossing] < sum) sum -= masses_[crossing--];
    members_.clear();
    for (const Weight weight : weights) {
      if (bucket(weight) == crossing) members_.push_back(weight);
    }
    if (members_.empty()) return {Weight{0}, 0};
    std::sort(members_.begin(), members_.end(), std::greater<>());
    Rank rank{members_[0], 0};
    for (const Weight weight : members_) {
      if (weight != rank.weight) rank = {weight, 0};
      ++rank.equals;
      sum -= weight;
      if (sum <= 0) break;
    }
    return rank;
  }

 private:
  std::array<std::uint32_t, kBuckets> counts_;
  std::array<double, kBuckets> masses_;
  std::vector<Weight> members_;
};

}  // namespace kvreplay
