// The measures of agreement, slowly and from their definitions alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "reports/agreement/quantities.hpp"

namespace kvreplay::testing {

using Numbers = std::vector<double>;

/// The k tokens with the highest scores, found one after the other; of equals the last.
inline std::set<std::size_t> reference_top(const Numbers& scores, std::size_t k) {
  std::set<std::size_t> top;
  while (top.size() < k) {
    std::optional<std::size_t> best;
    for (std::size_t at = 0; at < scores.size(); ++at) {
      if (top.count(at) == 0 && (!best || scores[at] >= scores[*best])) best = at;
    }
    top.insert(*best);
  }
  return top;
}

inline std::size_t in_both(const std::set<std::size_t>& one, const std::set<std::size_t>& other) {
  return static_cast<std::size_t>(std::count_if(
      one.begin(), one.end(), [&](std::size_t token) { return other.count(token) != 0; }));
}

/// 1 + how many are higher, and half of the others that are equal.
inline Numbers average_ranks(const Numbers& scores) {
  Numbers ranks;
  for (const double score : scores) {
    const auto higher =
        std::count_if(scores.begin(), scores.end(), [&](double x) { return x > score; });
    const auto equal = std::count(scores.begin(), scores.end(), score);
    ranks.push_back(1 + static_cast<double>(higher) + static_cast<double>(equal - 1) / 2);
  }
  return ranks;
}

inline std::optional<double> pearson(const Numbers& x, const Numbers& y) {
  const auto mean = [](const Numbers& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  double xy = 0;
  double xx = 0;
  double yy = 0;
  for (std::size_t at = 0; at < x.size(); ++at) {
    xy += (x[at] - mean(x)) * (y[at] - mean(y));
    xx += (x[at] - mean(x)) * (x[at] - mean(x));
    yy += (y[at] - mean(y)) * (y[at] - mean(y));
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

inline std::optional<double> tau_over_pairs(const Numbers& x, const Numbers& y) {
  double balance = 0;
  double untied_in_x = 0;
  double untied_in_y = 0;
  for (std::size_t a = 0; a < x.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const int by_x = (x[a] > x[b]) - (x[a] < x[b]);
      const int by_y = (y[a] > y[b]) - (y[a] < y[b]);
      balance += by_x * by_y;
      untied_in_x += by_x * by_x;
      untied_in_y += by_y * by_y;
    }
  }
  if (untied_in_x == 0 || untied_in_y == 0) return std::nullopt;
  return balance / std::sqrt(untied_in_x * untied_in_y);
}

/// Tokens of which fewer than `depth` are higher.
inline std::set<std::size_t> down_to(const Numbers& scores, std::size_t depth) {
  std::set<std::size_t> tokens;
  for (std::size_t at = 0; at < scores.size(); ++at) {
    const auto higher =
        std::count_if(scores.begin(), scores.end(), [&](double x) { return x > scores[at]; });
    if (static_cast<std::size_t>(higher) < depth) tokens.insert(at);
  }
  return tokens;
}

inline double rbo_by_sets(const Numbers& x, const Numbers& y, double p) {
  double sum = 0;
  double agreement = 0;
  for (std::size_t depth = 1; depth <= x.size(); ++depth) {
    const auto one = down_to(x, depth);
    const auto other = down_to(y, depth);
    agreement = 2.0 * static_cast<double>(in_both(one, other)) /
                static_cast<double>(one.size() + other.size());
    sum += agreement * std::pow(p, static_cast<double>(depth));
  }
  return agreement * std::pow(p, static_cast<double>(x.size())) + (1 - p) / p * sum;
}

inline std::optional<double> reference_measure(agreement::Measure measure, const Numbers& one,
                                               const Numbers& other, std::size_t k, double p) {
  using agreement::Measure;
  switch (measure) {
    case Measure::spearman:
      return pearson(average_ranks(one), average_ranks(other));
    case Measure::kendall_tau_b:
      return tau_over_pairs(one, other);
    case Measure::rbo:
      return rbo_by_sets(one, other, p);
    default:
      break;
  }
  const auto both = static_cast<double>(in_both(reference_top(one, k), reference_top(other, k)));
  const auto all = static_cast<double>(k);
  return measure == Measure::overlap ? both / all : both / (2 * all - both);
}

}  // namespace kvreplay::testing
