// Sets of tokens as bits, token j in bit j % 64 of word j / 64, as NeededFinder marks them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kvreplay::attention {

/// As many words as NeededFinder::mark() asks for.
constexpr std::size_t words_for(std::size_t tokens) {
  return tokens / 64 + 1;
}

inline std::uint64_t count_bits(std::span<const std::uint64_t> set) {
  std::uint64_t count = 0;
  for (const auto word : set) count += static_cast<std::uint64_t>(std::popcount(word));
  return count;
}

/// Of the words that both have.
inline std::uint64_t count_common(std::span<const std::uint64_t> one,
                                  std::span<const std::uint64_t> other) {
  std::uint64_t count = 0;
  const std::size_t words = std::min(one.size(), other.size());
  for (std::size_t word = 0; word < words; ++word) {
    count += static_cast<std::uint64_t>(std::popcount(one[word] & other[word]));
  }
  return count;
}

}  // namespace kvreplay::attention
