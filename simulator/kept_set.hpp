// The tokens that a cache holds, as its host keeps them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "policies/policy.hpp"

namespace kvreplay {

/// A set of tokens as bits: token j in bit j % 64 of word j / 64.
class TokenBits {
 public:
  void clear(std::uint32_t tokens) { words_.assign(tokens / 64 + 1, 0); }
  /// Takes another set, of ascending tokens.
  void assign(std::span<const std::uint32_t> tokens) {
    std::fill(words_.begin(), words_.end(), 0);
    for (std::size_t at = 0; at < tokens.size();) {
      const std::uint32_t word = tokens[at] / 64;
      std::uint64_t bits = 0;
      for (; at < tokens.size() && tokens[at] / 64 == word; ++at) bits |= bit(tokens[at]);
      words_[word] = bits;
    }
  }
  void set(std::uint32_t token) { words_[token / 64] |= bit(token); }
  void reset(std::uint32_t token) { words_[token / 64] &= ~bit(token); }

  /// How many of the bits in `others` are not in this set.
  std::uint32_t missing(std::span<const std::uint64_t> others) const {
    int count = 0;
    for (std::size_t i = 0; i < others.size(); ++i) count += std::popcount(others[i] & ~words_[i]);
    return static_cast<std::uint32_t>(count);
  }

  std::span<const std::uint64_t> words() const { return words_; }

 private:
  static std::uint64_t bit(std::uint32_t token) { return std::uint64_t{1} << (token % 64); }
  std::vector<std::uint64_t> words_;
};

/// Slots hold tokens in ascending order, without gaps.
class KeptSet {
 public:
  /// Empties the set for a sequence of n tokens.
  void clear(std::uint32_t n) {
    tokens_.clear();
    tokens_.reserve(n);
    bits_.clear(n);
    sum_ = 0;
  }
  void append(std::uint32_t token) {
    tokens_.push_back(token);
    bits_.set(token);
    sum_ += token;
  }
  /// Returns the token.
  std::uint32_t erase(Slot slot) {
    const auto at = tokens_.begin() + index(slot);
    const std::uint32_t token = *at;
    tokens_.erase(at);
    bits_.reset(token);
    sum_ -= token;
    return token;
  }
  /// Takes another set, of ascending tokens.
  void replace(std::span<const std::uint32_t> tokens) {
    tokens_.assign(tokens.begin(), tokens.end());
    bits_.assign(tokens);
    sum_ = std::accumulate(tokens.begin(), tokens.end(), std::uint64_t{0});
  }

  std::span<const std::uint32_t> tokens() const { return tokens_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(tokens_.size()); }
  const TokenBits& bits() const { return bits_; }
  std::uint64_t sum() const { return sum_; }  ///< of the tokens

 private:
  std::vector<std::uint32_t> tokens_;
  TokenBits bits_;
  std::uint64_t sum_ = 0;
};

}  // namespace kvreplay
