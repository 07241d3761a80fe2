// Copies of a file's bytes with a few of them changed, as damage or mischief would.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

namespace kvreplay::testing {

/// Calls `is_refused` with `rounds` changed copies, or as many as $KVREPLAY_FUZZ_ROUNDS says for a
/// longer run, and returns the share of them that it says so of. A copy has one to three changes:
/// up to three bytes taken out, or a digit or any byte in another's place; three in four of them
/// lie before `mostly_before`.
template <class IsRefused>
double refused_share(const std::string& bytes, unsigned seed, long rounds,
                     const IsRefused& is_refused,
                     std::size_t mostly_before = std::numeric_limits<std::size_t>::max()) {
  const char* set = std::getenv("KVREPLAY_FUZZ_ROUNDS");
  if (set != nullptr) rounds = std::atol(set);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  long refused = 0;
  for (long round = 0; round < rounds; ++round) {
    std::string changed = bytes;
    for (std::size_t k = below(3) + 1; k > 0; --k) {
      const std::size_t size = changed.size();
      const std::size_t at = below(below(4) == 0 ? size : std::min(size, mostly_before));
      if (below(3) == 0)
        changed.erase(at, below(4));
      else
        changed[at] = static_cast<char>(below(2) == 0 ? '0' + below(10) : below(256));
    }
    if (is_refused(changed)) ++refused;
  }
  return static_cast<double>(refused) / static_cast<double>(rounds);
}

}  // namespace kvreplay::testing
