#include "policies/ranking.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace kvreplay {
namespace {

constexpr std::size_t kLanes = 16;  // independent minima, so that the loop becomes vector code

double least_of(const double* first, const double* last) {
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
  return least;
}

}  // namespace

Slot SlotRange::operator[](std::uint32_t before) const {
  std::uint32_t slot = first + before;
  for (const std::uint32_t one : except) {
    if (one > slot) break;
    ++slot;
  }
  return Slot{slot};
}

std::uint64_t most_held(const Setting& setting) {
  const std::uint64_t prompt = setting.prefill == Prefill::full ? setting.prompt_tokens : 0;
  const std::uint64_t held = std::max<std::uint64_t>(prompt, setting.budget.tokens + 1ULL);
  return std::min<std::uint64_t>(held, setting.tokens);
}

Slot first_minimum(std::span<const double> values, const SlotRange& candidates) {
  const double* const data = values.data();
  std::uint32_t best_first = candidates.first;  // the stretch between exceptions with the smallest
  std::uint32_t best_last = candidates.first;
  double least = std::numeric_limits<double>::infinity();
  std::uint32_t first = candidates.first;
  const auto look = [&](std::uint32_t last) {
    if (first == last) return;
    const double here = least_of(data + first, data + last);
    if (best_first == best_last || here < least) {
      least = here;
      best_first = first;
      best_last = last;
    }
  };
  for (const std::uint32_t except : candidates.except) {
    look(except);
    first = except + 1;
  }
  look(candidates.last);
  return Slot{
      static_cast<std::uint32_t>(std::find(data + best_first, data + best_last, least) - data)};
}

}  // namespace kvreplay
