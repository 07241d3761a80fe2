// The largest of many weights that are not negative, without sorting them.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace kvreplay {

/// Weights fall into buckets an eighth of an octave wide, so that only one bucket is looked into.
/// Keeps its scratch space between calls.
template <class Weight>
class Selection {
 public:
  /// Requires 1 <= k <= weights.size().
  Weight kth_largest(std::span<const Weight> weights, std::uint32_t k) {
    find_buckets(weights);
    counts_.fill(0);
    for (const auto bucket : buckets_) ++counts_[bucket];
    std::uint32_t crossing = kBuckets - 1;
    while (counts_[crossing] < k) k -= counts_[crossing--];
    collect(weights, crossing);
    const auto at = members_.begin() + (k - 1);
    std::nth_element(members_.begin(), at, members_.end(), std::greater<>());
    return *at;
  }

  /// The places of the k largest weights, ascending; among equals the last are taken. Requires
  /// k <= weights.size().
  void largest(std::span<const Weight> weights, std::uint32_t k,
               std::vector<std::uint32_t>& places) {
    places.resize(k == 0 ? 0 : weights.size());
    if (k == 0) return;
    const Weight least = kth_largest(weights, k);
    std::uint32_t* end = places.data();
    for (std::uint32_t place = 0; place < weights.size(); ++place) {
      *end = place;
      end += weights[place] >= least ? 1 : 0;
    }
    places.resize(static_cast<std::size_t>(end - places.data()));
    std::size_t too_many = places.size() - k;  // the first of the equals go
    std::erase_if(places, [&](std::uint32_t place) {
      if (too_many == 0 || weights[place] != least) return false;
      --too_many;
      return true;
    });
  }

 private:
  // 8 buckets an octave from 2^-32 to 2^8: all that is less shares the lowest, all that is more
  // the highest.
  static constexpr std::int32_t kLeast = (127 - 32) * 8;
  static constexpr std::uint32_t kBuckets = 40 * 8;

  void find_buckets(std::span<const Weight> weights) {
    buckets_.resize(weights.size());
    const Weight* const weight = weights.data();
    std::uint16_t* const bucket = buckets_.data();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto bits = std::bit_cast<std::int32_t>(static_cast<float>(weight[i]));
      const std::int32_t place = std::max((bits >> 20) - kLeast, 0);
      bucket[i] = static_cast<std::uint16_t>(std::min(place, std::int32_t{kBuckets} - 1));
    }
  }

  void collect(std::span<const Weight> weights, std::uint32_t wanted) {
    members_.resize(weights.size());
    const Weight* const weight = weights.data();
    const std::uint16_t* const bucket = buckets_.data();
    Weight* end = members_.data();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      *end = weight[i];
      end += bucket[i] == wanted ? 1 : 0;
    }
    members_.resize(static_cast<std::size_t>(end - members_.data()));
  }

  std::array<std::uint32_t, kBuckets> counts_;
  std::vector<std::uint16_t> buckets_;
  std::vector<Weight> members_;
};

}  // namespace kvreplay
