// Tokens that were evicted and are needed after all.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "simulator/kept_set.hpp"
#include "simulator/needed_kernels.hpp"
#include "simulator/needed_rows.hpp"

namespace kvreplay {

/// The evictions of one unit. For each rule of needed sets a token is regretted once, at the first
/// row that needs it.
class Regret {
 public:
  void start(std::uint32_t tokens, std::size_t rules) {
    evicted_at_.assign(tokens, 0);
    waiting_.resize(rules);
    for (auto& waiting : waiting_) waiting.clear(tokens);
    delays_.resize(rules);
    for (auto& delays : delays_) {
      delays.clear();
      delays.reserve(tokens);
    }
    evictions_ = 0;
  }

  void evicted(std::uint32_t step, std::uint32_t token) {
    evicted_at_[token] = step;
    for (auto& waiting : waiting_) waiting.set(token);
    ++evictions_;
  }

  /// Looks for tokens that one of the rows is the first to need since they left. `any`: what some
  /// row needs by the rule. What left at one of these rows has been told before; `behind`: it left
  /// behind that row, which did not lack it.
  void look(std::size_t rule, const NeededRows& rows, std::span<const std::uint64_t> any,
            bool behind, const NeededKernels& kernels) {
    TokenBits& waiting = waiting_[rule];
    auto& delays = delays_[rule];
    for (std::size_t first = 0; first < any.size(); first += kMostWords) {
      auto words = kernels.common_words(any.data() + first, waiting.words().data() + first,
                                        std::min(kMostWords, any.size() - first));
      // One loop over words and tokens: how many there are can hardly be foretold.
      while (words != 0) {
        const std::size_t word = first + static_cast<std::size_t>(std::countr_zero(words));
        const std::uint64_t bits = any[word] & waiting.words()[word];
        const auto token = static_cast<std::uint32_t>(64 * word) +
                           static_cast<std::uint32_t>(std::countr_zero(bits));
        const std::uint64_t last = (bits & (bits - 1)) == 0 ? 1 : 0;
        words &= words - last;
        waiting.reset(token);
        const std::uint32_t left = evicted_at_[token];
        // No row from here on ends before the token's word or is not measured.
        const std::uint32_t from = std::max(left + (behind ? 1 : 0), rows.first());
        const std::uint64_t since = rows.rows_that_need(token, rule) >> (from - rows.first());
        if (since == 0) {
          needed_before_.push_back(token);
        } else {
          delays.push_back(from + static_cast<std::uint32_t>(std::countr_zero(since)) - left);
        }
      }
    }
    for (const std::uint32_t token : needed_before_) waiting.set(token);
    needed_before_.clear();
  }

  std::uint64_t evictions() const { return evictions_; }
  /// How many steps each regretted token was away when it was needed.
  std::span<const std::uint32_t> delays(std::size_t rule) const { return delays_[rule]; }

 private:
  std::vector<std::uint32_t> evicted_at_;           // by token
  std::vector<TokenBits> waiting_;                  // by rule: evicted and not needed since
  std::vector<std::vector<std::uint32_t>> delays_;  // by rule
  std::uint64_t evictions_ = 0;
  std::vector<std::uint32_t> needed_before_;  // scratch: by some row, none of them since it left
};

}  // namespace kvreplay
