// Tokens that were evicted and are needed after all.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "simulator/kept_set.hpp"

namespace kvreplay {

/// The evictions of one unit. For each rule of needed sets a token is regretted once, at the first
/// row that needs it.
class Regret {
 public:
  void start(std::uint32_t tokens, std::size_t rules) {
    evicted_at_.assign(tokens, 0);
    waiting_.resize(rules);
    for (auto& waiting : waiting_) waiting.clear(tokens);
    evictions_ = 0;
  }

  void evicted(std::uint32_t step, std::uint32_t token) {
    evicted_at_[token] = step;
    for (auto& waiting : waiting_) waiting.set(token);
    ++evictions_;
  }

  /// Evicted, and not needed since by that rule.
  const TokenBits& waiting(std::size_t rule) const { return waiting_[rule]; }

  /// Calls regretted(delay) for each token that row `step` is the first to need since it left.
  /// `needed`: the row's needed set by one rule; such tokens lie in the words of which bits are set
  /// in `words`, the lowest being word `first`.
  template <class Regretted>
  void look(std::size_t rule, std::uint32_t step, std::span<const std::uint64_t> needed,
            std::size_t first, std::uint64_t words, Regretted regretted) {
    TokenBits& waiting = waiting_[rule];
    for (; words != 0; words &= words - 1) {
      const std::size_t word = first + static_cast<std::size_t>(std::countr_zero(words));
      for (auto bits = needed[word] & waiting.words()[word]; bits != 0; bits &= bits - 1) {
        const auto token = static_cast<std::uint32_t>(64 * word) +
                           static_cast<std::uint32_t>(std::countr_zero(bits));
        waiting.reset(token);
        regretted(step - evicted_at_[token]);
      }
    }
  }

  std::uint64_t evictions() const { return evictions_; }

 private:
  std::vector<std::uint32_t> evicted_at_;  // by token
  std::vector<TokenBits> waiting_;         // by rule: evicted and not needed since
  std::uint64_t evictions_ = 0;
};

}  // namespace kvreplay
