// Random numbers that are the same on every machine, and of which every unit has a stream of its
// own that does not depend on which others run.
#pragma once

#include <cmath>
#include <cstdint>

#include "policies/policy.hpp"

namespace kvreplay {

/// The finaliser of splitmix64, which maps 0 to 0.
inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Where the random numbers of a unit start: seed XOR mix(layer * 2^32 + unit), so layer 0, unit 0
/// starts at the seed itself.
inline std::uint64_t unit_seed(std::uint64_t seed, const Setting& setting) {
  return seed ^ mix((std::uint64_t{setting.layer} << 32) | setting.unit);
}

/// splitmix64.
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t state) : state_(state) {}

  std::uint64_t bits() {
    state_ += 0x9e3779b97f4a7c15U;
    return mix(state_);
  }
  /// One of 0 .. count - 1, evenly but for 1 in 2^32 / count; count is at most 2^32.
  std::uint64_t below(std::uint64_t count) { return ((bits() >> 32) * count) >> 32; }
  /// Of the distribution with density exp(-x), x > 0.
  double exponential() { return exponential_of(bits()); }
  /// The same of 64 random bits. Uses 52: with a half more they are exact, between 0 and 1.
  static double exponential_of(std::uint64_t bits) {
    return -std::log((static_cast<double>(bits >> 12) + 0.5) * 0x1p-52);
  }
  /// Of the standard Gumbel distribution.
  double gumbel() { return -std::log(exponential()); }

 private:
  std::uint64_t state_;
};

}  // namespace kvreplay
