// The victim by the set score of policies/score.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "policies/score.hpp"

namespace kvreplay {

/// argmax over the candidates v of h(sum of all `scores` but v's); `values` is scratch space.
inline Slot lowest_of_set(Score::Shape shape, std::span<const double> scores,
                          const SlotRange& candidates, std::vector<double>& values) {
  const double total =
      shape == Score::Shape::identity ? 0 : std::accumulate(scores.begin(), scores.end(), 0.0);
  // Sums that have overflowed, as halves do, are ordered as they are.
  if (shape == Score::Shape::identity || std::isinf(total))
    return first_minimum(scores, candidates);
  values.resize(scores.size());
  const auto evaluate = [&](auto h) {
    for (std::uint32_t slot = candidates.first; slot < candidates.last; ++slot) {
      values[slot] = -h(std::max(0.0, total - scores[slot]) + 1);
    }
  };
  if (shape == Score::Shape::sqrt) evaluate([](double z) { return std::sqrt(z); });
  if (shape == Score::Shape::log) evaluate([](double z) { return std::log(z); });
  return first_minimum(values, candidates);
}

}  // namespace kvreplay
