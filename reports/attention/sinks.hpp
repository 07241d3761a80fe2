// Where attention gathers: how much of it tokens get by place, class and text, beside what rows of
// even weights would give them; which of them are heavy hitters.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "reports/attention/head_rows.hpp"
#include "reports/attention/token_classes.hpp"

namespace kvreplay::attention {

struct SinksQuestion {
  std::uint32_t sinks = 4;          ///< the first tokens that are taken away, below n
  double heavy = 0.05;              ///< share of the tokens that are heavy hitters, in (0, 1]
  std::vector<TokenGroups> groups;  ///< of n tokens each
};

/// What the tokens of one group got, summed over heads. Every row counts as 1: weights are divided
/// by the row's sum.
struct Got {
  double mass = 0;   ///< share of all attention
  double even = 0;   ///< what rows of even weights would give: old tokens are seen by more rows
  double heavy = 0;  ///< share of the heavy hitters
  double even_heavy = 0;
  double rest_heavy = 0;  ///< share of the heavy hitters among the tokens behind the sinks

  Got& operator+=(const Got& other);
};

/// How unevenly accumulated scores are spread over tokens.
struct Spread {
  double gini = 0;  ///< 0: evenly, 1 - 1/n: one token has all
  double top = 0;   ///< share of the heavy hitters
};

struct SinksOfHead {
  std::uint64_t rows = 0;                ///< 0: all else is 0 or none
  std::vector<std::vector<Got>> groups;  ///< as in the question
  std::vector<double> mass;              ///< by token: share of all attention
  std::vector<double> even;              ///< by token: of rows of even weights
  /// Mean of p_i0 over the rows i >= 1; none where there is no such row.
  std::optional<double> first_mean;
  std::optional<double> first_of_last_row;  ///< p_i0 of the last row, i >= 1
  double heavy_sinks = 0;                   ///< share of the heavy hitters that are sinks
  Spread all;
  Spread all_even;   ///< of rows of even weights
  Spread rest;       ///< without the sinks
  Spread rest_even;  ///< of even weights without the sinks
};

/// How many heavy hitters there are among so many tokens: the share rounded down, but at least 1.
std::uint32_t heavy_hitters(std::uint32_t tokens, double share);

/// Accumulates the rows of one head; it needs all of them.
class SinksStudy {
 public:
  /// `question` outlives the object.
  SinksStudy(const SinksQuestion& question, std::uint32_t tokens);

  void look(const Row& row);
  SinksOfHead found() const;

 private:
  const SinksQuestion& question_;
  std::vector<double> mass_;  // by token
  std::vector<double> even_;  // what one even row i gives each of its tokens, by i; 0: no row
  std::uint64_t rows_ = 0;
  double first_ = 0;
  std::uint64_t behind_first_ = 0;  // rows i >= 1
  std::optional<double> first_of_last_row_;
};

}  // namespace kvreplay::attention
