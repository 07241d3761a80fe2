#include "reports/agreement/ranks.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvreplay::agreement {
namespace {

double pairs(std::uint64_t count) {
  return static_cast<double>(count) * (static_cast<double>(count) - 1) / 2;
}

/// Pairs that are tied in `ranks`.
double tied_pairs(const Ranks& ranks) {
  double tied = 0;
  for (std::size_t group = 0; group < ranks.groups(); ++group) {
    tied += pairs(ranks.group_size(group));
  }
  return tied;
}

/// Sorts, and counts the pairs of which the former is greater.
std::uint64_t inversions(std::span<std::uint32_t> values, std::span<std::uint32_t> scratch) {
  if (values.size() < 2) return 0;
  const std::size_t middle = values.size() / 2;
  std::uint64_t count = inversions(values.first(middle), scratch.first(middle)) +
                        inversions(values.subspan(middle), scratch.subspan(middle));
  std::size_t left = 0;
  std::size_t right = middle;
  for (auto& next : scratch.first(values.size())) {
    if (right == values.size() || (left < middle && values[left] <= values[right])) {
      next = values[left++];
    } else {
      next = values[right++];
      count += middle - left;
    }
  }
  std::copy_n(scratch.begin(), values.size(), values.begin());
  return count;
}

std::size_t in_both(const Ranks& one, const Ranks& other, std::uint32_t k) {
  const auto top = std::span(one.order).first(k);
  return static_cast<std::size_t>(
      std::count_if(top.begin(), top.end(), [&](auto token) { return other.place[token] < k; }));
}

}  // namespace

Ranks::Ranks(std::span<const double> scores)
    : order(scores.size()), place(scores.size()), group(scores.size()) {
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t one, std::uint32_t other) {
    return scores[one] != scores[other] ? scores[one] > scores[other] : one > other;
  });
  for (std::uint32_t at = 0; at < order.size(); ++at) {
    if (at == 0 || scores[order[at]] != scores[order[at - 1]]) first.push_back(at);
    place[order[at]] = at;
    group[order[at]] = static_cast<std::uint32_t>(first.size() - 1);
  }
  first.push_back(static_cast<std::uint32_t>(order.size()));
}

double top_overlap(const Ranks& one, const Ranks& other, std::uint32_t k) {
  return static_cast<double>(in_both(one, other, k)) / k;
}

double top_jaccard(const Ranks& one, const Ranks& other, std::uint32_t k) {
  const auto both = static_cast<double>(in_both(one, other, k));
  return both / (2.0 * k - both);
}

std::optional<double> spearman(const Ranks& one, const Ranks& other) {
  const double mean = (static_cast<double>(one.size()) - 1) / 2;
  const auto from_mean = [mean](const Ranks& ranks, std::size_t token) {
    const auto group = ranks.group[token];
    return (static_cast<double>(ranks.first[group]) + ranks.first[group + 1] - 1) / 2 - mean;
  };
  double both = 0;
  double of_one = 0;
  double of_other = 0;
  for (std::size_t token = 0; token < one.size(); ++token) {
    const double x = from_mean(one, token);
    const double y = from_mean(other, token);
    both += x * y;
    of_one += x * x;
    of_other += y * y;
  }
  if (of_one == 0 || of_other == 0) return std::nullopt;
  return both / (std::sqrt(of_one) * std::sqrt(of_other));
}

std::optional<double> kendall_tau_b(const Ranks& one, const Ranks& other) {
  std::vector<std::uint32_t> values(one.size());
  for (std::size_t at = 0; at < values.size(); ++at) values[at] = other.group[one.order[at]];
  double tied_in_both = 0;
  for (std::size_t group = 0; group < one.groups(); ++group) {
    const auto begin = values.begin() + one.first[group];
    const auto end = values.begin() + one.first[group + 1];
    std::sort(begin, end);
    for (auto run = begin; run != end;) {
      const auto next = std::upper_bound(run, end, *run);
      tied_in_both += pairs(static_cast<std::uint64_t>(next - run));
      run = next;
    }
  }
  const double all = pairs(one.size());
  const double untied_in_one = all - tied_pairs(one);
  const double untied_in_other = all - tied_pairs(other);
  if (untied_in_one == 0 || untied_in_other == 0) return std::nullopt;
  std::vector<std::uint32_t> scratch(values.size());
  const auto discordant = static_cast<double>(inversions(values, scratch));
  const double untied = untied_in_one + untied_in_other - all + tied_in_both;
  return (untied - 2 * discordant) / (std::sqrt(untied_in_one) * std::sqrt(untied_in_other));
}

double rank_biased_overlap(const Ranks& one, const Ranks& other, double p) {
  const std::size_t m = one.size();
  std::vector<char> seen(m, 0);
  std::size_t both = 0;
  std::size_t down_to[2] = {0, 0};  // places of each order that are seen
  double sum = 0;
  double weight = 1;
  double agreement = 1;
  for (std::size_t depth = 1; depth <= m; ++depth) {
    for (int side = 0; side < 2; ++side) {
      const Ranks& ranks = side == 0 ? one : other;
      auto& end = down_to[side];
      if (end >= depth) continue;
      const std::size_t next = ranks.first[ranks.group[ranks.order[end]] + 1];
      for (; end < next; ++end) both += seen[ranks.order[end]]++;
    }
    agreement = 2 * static_cast<double>(both) / static_cast<double>(down_to[0] + down_to[1]);
    weight *= p;
    sum += agreement * weight;
  }
  return agreement * weight + (1 - p) / p * sum;
}

}  // namespace kvreplay::agreement
