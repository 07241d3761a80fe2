// The order of tokens by their scores, and how alike two orders are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvreplay::agreement {

/// Tokens 0 .. m - 1 from the highest score down. Equal scores make one group; where an order
/// without ties is needed the later token comes first, as policies let the oldest of equals go.
struct Ranks {
  explicit Ranks(std::span<const double> scores);

  std::size_t size() const { return order.size(); }
  std::size_t groups() const { return first.size() - 1; }
  std::size_t group_size(std::size_t number) const { return first[number + 1] - first[number]; }

  std::vector<std::uint32_t> order;  ///< tokens, the highest score first
  std::vector<std::uint32_t> place;  ///< by token: where it is in `order`, from 0
  std::vector<std::uint32_t> group;  ///< by token: its group, from 0
  std::vector<std::uint32_t> first;  ///< by group: the place of its first token; then m
};

/// |A and B| / k, A and B the k tokens with the highest scores; 1 <= k <= m.
double top_overlap(const Ranks& one, const Ranks& other, std::uint32_t k);
/// |A and B| / |A or B| of the same.
double top_jaccard(const Ranks& one, const Ranks& other, std::uint32_t k);

/// Pearson's correlation of the ranks, a group sharing the mean of its own. None where all scores
/// of one side are equal.
std::optional<double> spearman(const Ranks& one, const Ranks& other);

/// Kendall's tau-b: (concordant - discordant pairs) / sqrt(pairs untied in one * in the other).
/// Knight's O(m log m) (JASA 61, 1966). None as for spearman().
std::optional<double> kendall_tau_b(const Ranks& one, const Ranks& other);

/// Rank-biased overlap of Webber, Moffat and Zobel (TOIS 28, 2010), extrapolated (RBO_ext):
/// A_m p^m + (1 - p) / p * sum over d = 1 .. m of A_d p^d, with A_d the agreement of the tokens
/// down to rank d, 2 |S and T| / (|S| + |T|); all of a group are at its first rank. 0 < p < 1.
double rank_biased_overlap(const Ranks& one, const Ranks& other, double p);

}  // namespace kvreplay::agreement
