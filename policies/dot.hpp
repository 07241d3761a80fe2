// Products of vectors, in double.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace kvreplay {

/// The sum of one[c] * other[c], added up in eight lanes so that it becomes vector code: the same
/// order whatever the machine, for both have one length.
template <class One, class Other>
double dot(std::span<const One> one, std::span<const Other> other) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  const std::size_t whole = one.size() / kLanes * kLanes;
  const One* const a = one.data();
  const Other* const b = other.data();
  for (std::size_t c = 0; c < whole; c += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += static_cast<double>(a[c + lane]) * static_cast<double>(b[c + lane]);
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (std::size_t c = whole; c < one.size(); ++c) {
    sum += static_cast<double>(a[c]) * static_cast<double>(b[c]);
  }
  return sum;
}

}  // namespace kvreplay
