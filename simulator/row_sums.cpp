#include "simulator/row_sums.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace kvreplay {
namespace {

constexpr std::size_t kLanes = 16;
constexpr std::size_t kAhead = 1024;  // rows follow one another: on to the next ones in time

/// Addend i goes to lane i mod 16; the lanes are added pairwise.
class Lanes {
 public:
  double& operator[](std::size_t lane) { return lanes_[lane]; }
  double total() {
    for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::size_t lane = 0; lane < half; ++lane) lanes_[lane] += lanes_[lane + half];
    }
    return lanes_[0];
  }

 private:
  std::array<double, kLanes> lanes_{};
};

struct Nothing {
  void operator()(std::size_t /*i*/) const {}
};

/// Calls weight(i) for i = 0..count-1 and sums what it returns; before(i) where a line of the cache
/// begins.
template <class Weight, class Before = Nothing>
double sum_of(std::size_t count, Weight weight, Before before = {}) {
  Lanes lanes;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    before(i);
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += weight(i + lane);
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) lanes[lane] += weight(i);
  return lanes.total();
}

}  // namespace

double row_sum(std::span<const float> row) {
  const float* const weights = row.data();
  const double sum = sum_of(
      row.size(), [weights](std::size_t i) { return static_cast<double>(weights[i]); },
      [weights](std::size_t i) { __builtin_prefetch(weights + i + kAhead); });
  int negative = 0;
  for (std::size_t i = 0; i < row.size(); ++i) negative |= static_cast<int>(weights[i] < 0);
  return negative == 0 && std::isfinite(sum) ? sum : std::numeric_limits<double>::quiet_NaN();
}

double copy_row(std::span<const float> row, double* out) {
  const float* const weights = row.data();
  return sum_of(row.size(),
                [weights, out](std::size_t i) { return out[i] = static_cast<double>(weights[i]); });
}

double gather_row(const float* row, std::span<const std::uint32_t> tokens, double* out) {
  const std::uint32_t* const token = tokens.data();
  return sum_of(tokens.size(), [row, token, out](std::size_t i) {
    return out[i] = static_cast<double>(row[token[i]]);
  });
}

}  // namespace kvreplay
