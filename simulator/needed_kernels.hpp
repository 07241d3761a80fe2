// The inner loops over needed sets; see simulator/kernels.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvreplay {

constexpr std::uint32_t kCuts = 4;  ///< that the weights of a row are compared with at once

constexpr std::uint32_t kClasses = 32;
constexpr std::size_t kMostWords = 64;  ///< of sets that are compared at once

/// What a cache lacks of a needed set.
struct Missing {
  std::uint32_t tokens = 0;
  std::uint64_t waited_for = 0;  ///< bit w: some of word w's needed tokens were waited for
};

/// Weights are those of one row: not negative, no NaN. Of sets token j is bit j % 64 of word
/// j / 64; all words that hold a bit of the row's tokens are read or written.
struct NeededKernels {
  /// The largest weight of each class of tokens, token j being of class j mod kClasses.
  void (*largest_of_classes)(const float* weights, std::size_t count, float* largest);

  /// The set of weights that are at least `least`.
  void (*mark_at_least)(const float* weights, std::size_t count, float least, std::uint64_t* set);

  /// The sum of the weights that are below `cut`.
  double (*sum_below)(const float* weights, std::size_t count, float cut);

  /// sums[c] is the sum of the weights that are below cuts[c], as floats are added.
  void (*sums_below)(const float* weights, std::size_t count, const float* cuts, float* sums);

  /// How many tokens of at most 64 words are needed and not held, and where any is needed and
  /// waited for.
  Missing (*count_missing)(const std::uint64_t* needed, const std::uint64_t* held,
                           const std::uint64_t* waiting, std::size_t words);
};

}  // namespace kvreplay
