#include "policies/ranking.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace kvreplay {
namespace {

constexpr std::size_t kLanes = 16;  // independent minima, so that the loop becomes vector code

/// The first of the smallest values.
Slot first_minimum(std::span<const double> values, SlotRange range) {
  const double* const first = values.data() + range.first;
  const double* const last = values.data() + range.last;
  std::array<double, kLanes> lanes;
  lanes.fill(std::numeric_limits<double>::infinity());
  const double* at = first;
  for (; last - at >= static_cast<std::ptrdiff_t>(kLanes); at += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = at[lane] < lanes[lane] ? at[lane] : lanes[lane];
    }
  }
  double least = *std::min_element(lanes.begin(), lanes.end());
  for (; at != last; ++at) least = *at < least ? *at : least;
  return Slot{static_cast<std::uint32_t>(std::find(first, last, least) - values.data())};
}

void add(std::vector<double>& sums, const Held& held, std::span<const double> weights) {
  sums.resize(held.tokens.size(), 0.0);  // a newcomer starts at 0
  double* const sum = sums.data();
  const double* const weight = weights.data();
  for (std::size_t slot = 0; slot < weights.size(); ++slot) sum[slot] += weight[slot];
}

void erase(std::vector<double>& values, Slot slot) {
  values.erase(values.begin() + index(slot));
}

}  // namespace

void AccumulatedRanking::observe(const Held& held, std::span<const double> weights) {
  add(scores_, held, weights);
}
Slot AccumulatedRanking::worst(const Held&, SlotRange candidates) {
  return first_minimum(scores_, candidates);
}
void AccumulatedRanking::dropped(Slot slot) {
  erase(scores_, slot);
}

void MeanRanking::observe(const Held& held, std::span<const double> weights) {
  add(sums_, held, weights);
}
Slot MeanRanking::worst(const Held& held, SlotRange candidates) {
  means_.resize(sums_.size());
  for (std::uint32_t slot = candidates.first; slot < candidates.last; ++slot) {
    means_[slot] = sums_[slot] / (held.step - held.tokens[slot] + 1);
  }
  return first_minimum(means_, candidates);
}
void MeanRanking::dropped(Slot slot) {
  erase(sums_, slot);
}

void LastRowRanking::observe(const Held& held, std::span<const double> weights) {
  weights_.assign(weights.begin(), weights.end());
  weights_.resize(held.tokens.size(), 0.0);
}
Slot LastRowRanking::worst(const Held&, SlotRange candidates) {
  return first_minimum(weights_, candidates);
}
void LastRowRanking::dropped(Slot slot) {
  erase(weights_, slot);
}

Slot RandomRanking::worst(const Held&, SlotRange candidates) {
  state_ = state_ * 6364136223846793005U + 1442695040888963407U;
  return Slot{candidates.first +
              static_cast<std::uint32_t>((state_ >> 32) % (candidates.last - candidates.first))};
}

}  // namespace kvreplay
