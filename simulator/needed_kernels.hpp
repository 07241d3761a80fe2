// The inner loops over needed sets; see simulator/kernels.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvreplay {

constexpr std::uint32_t kCuts = 4;  ///< that the weights of a row are compared with at once

constexpr std::uint32_t kClasses = 32;
constexpr std::size_t kMoreRoom = 64;   ///< behind weights that are copied
constexpr std::size_t kMostWords = 64;  ///< of sets of which common words are found

/// Of the weights that collect() copied, and of those below them.
struct Collected {
  std::size_t count = 0;  ///< copied
  double below = 0;       ///< the sum of those that are below the lower cut
};

/// Weights are those of one row: not negative, no NaN. Of sets token j is bit j % 64 of word
/// j / 64; all words that hold a bit of the row's tokens are read or written.
struct NeededKernels {
  /// The largest weight of each class of tokens, token j being of class j mod kClasses, and of all.
  float (*largest_of_classes)(const float* weights, std::size_t count, float* largest);

  /// The n-th largest of kClasses numbers, n being 1 to kClasses.
  float (*nth_of_classes)(const float* numbers, std::uint32_t n);

  /// The set of weights that are at least `least`, and its size.
  std::uint32_t (*mark_at_least)(const float* weights, std::size_t count, float least,
                                 std::uint64_t* set);

  /// Copies the weights that are at least `low` and below `high`, in turn; behind the last one as
  /// many as kMoreRoom are overwritten. Adds up those below `low`.
  Collected (*collect)(const float* weights, std::size_t count, float low, float high,
                       float* between);

  /// sums[c] is the sum of the weights that are below cuts[c], as floats are added.
  void (*sums_below)(const float* weights, std::size_t count, const float* cuts, float* sums);

  /// sums[i] is the sum of those weights that are no larger than weight i; `count` is a multiple of
  /// kGroup (simulator/lane_kernels.hpp).
  void (*sums_up_to)(const float* weights, std::size_t count, double* sums);

  /// missing[s] is how many tokens of set s are not held, each set being of so many words, which
  /// lie `apart` words behind those of the last one.
  void (*count_missing)(const std::uint64_t* needed, std::size_t sets, std::size_t apart,
                        const std::uint64_t* held, std::size_t words, std::uint32_t* missing);

  /// Bit w: two sets of at most kMostWords words have some token of word w in common.
  std::uint64_t (*common_words)(const std::uint64_t* one, const std::uint64_t* other,
                                std::size_t words);
};

}  // namespace kvreplay
