// A slow replay written from the definitions alone: sets, maps and loops over every token, nothing
// shared with the engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "matrix.hpp"

namespace kvreplay::testing {

using Tokens = std::set<int>;

/// What leaves first, and what cannot leave.
struct ReferencePolicy {
  int capacity = 0;
  int sinks = 0;
  int recent = 0;
  bool renormalise = true;
  bool hides_newcomer = false;
  enum class Score { age, sum, mean, last, random } score = Score::age;
  bool top_of_row = false;
  std::uint64_t seed = 0;
  int full_rows = 0;  ///< of the prompt, which attend all before them
  enum class Pool { mean, sum, max } pool = Pool::mean;
};

struct ReferenceStep {
  Tokens visible;
  Tokens kept;
  double turnover = 0;
  /// By head: mass_loss, then the four miss rates, none where nothing is needed.
  std::vector<std::vector<std::optional<double>>> metrics;
};

inline double sum_over(const std::vector<double>& row, const Tokens& tokens) {
  double sum = 0;
  for (const int j : tokens) sum += row[static_cast<std::size_t>(j)];
  return sum;
}

/// The keys 0..i of a row from the largest weight down, the newest first among equals.
inline std::vector<int> by_weight(const std::vector<double>& row, int last) {
  std::vector<int> order;
  for (int j = last; j >= 0; --j) order.push_back(j);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
  });
  return order;
}

inline std::vector<Tokens> needed_tokens(const std::vector<double>& row, int i) {
  const auto order = by_weight(row, i);
  const double largest = row[static_cast<std::size_t>(order[0])];
  double total = 0;
  for (int j = 0; j <= i; ++j) total += row[static_cast<std::size_t>(j)];
  std::vector<Tokens> needed(4);
  const bool even = row[static_cast<std::size_t>(order[0])] ==
                    row[static_cast<std::size_t>(order.back())];  // none is above the mean
  double mass = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const double weight = row[static_cast<std::size_t>(order[rank])];
    if (weight >= 0.01 * largest) needed[0].insert(order[rank]);
    if (rank < 4) needed[1].insert(order[rank]);
    if (mass < 0.95 * total * (1 - 1e-12)) needed[2].insert(order[rank]);
    mass += weight;
    if (!even && weight > 1.0 / (i + 1)) needed[3].insert(order[rank]);
  }
  return needed;
}

inline int victim_of(const ReferencePolicy& policy, const Tokens& held, int i,
                     const std::map<int, double>& sums, const std::map<int, double>& last,
                     std::uint64_t& state) {
  std::vector<int> candidates;
  for (const int j : held) {
    if (j >= policy.sinks && j <= i - policy.recent) candidates.push_back(j);
  }
  using Score = ReferencePolicy::Score;
  if (policy.score == Score::random) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return candidates[(state >> 32) % candidates.size()];
  }
  const auto score = [&](int j) -> double {
    const auto value = [j](const std::map<int, double>& map) {
      const auto at = map.find(j);
      return at == map.end() ? 0.0 : at->second;
    };
    if (policy.score == Score::sum) return value(sums);
    if (policy.score == Score::mean) return value(sums) / (i - j + 1);
    if (policy.score == Score::last) return value(last);
    return j;
  };
  int victim = candidates[0];
  for (const int j : candidates) {
    if (score(j) < score(victim)) victim = j;
  }
  return victim;
}

/// The row that heads share: of `tokens`, each head's weights divided by their sum where wanted.
inline std::map<int, double> pooled_row(const ReferencePolicy& policy, const Heads& heads,
                                        std::size_t at, const Tokens& tokens) {
  using Pool = ReferencePolicy::Pool;
  std::map<int, double> pooled;
  for (const auto& head : heads) {
    const double mass = sum_over(head[at], tokens);
    for (const int j : tokens) {
      double weight = head[at][static_cast<std::size_t>(j)];
      if (policy.renormalise) weight = mass > 0 ? weight * (1 / mass) : 0;
      pooled[j] = policy.pool == Pool::max ? std::max(pooled[j], weight) : pooled[j] + weight;
    }
  }
  if (policy.pool == Pool::mean && heads.size() > 1) {
    for (auto& [j, weight] : pooled) weight /= static_cast<double>(heads.size());
  }
  return pooled;
}

inline std::vector<ReferenceStep> reference_replay(const Heads& heads,
                                                   const ReferencePolicy& policy) {
  const int n = static_cast<int>(heads[0].size());
  std::vector<ReferenceStep> steps;
  Tokens held;
  std::map<int, double> sums;
  std::uint64_t state = policy.seed;
  for (int i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    ReferenceStep step;
    const Tokens before = held;
    const bool full = i < policy.full_rows;
    if (policy.top_of_row) {
      ReferencePolicy raw = policy;
      raw.renormalise = false;
      Tokens earlier;
      for (int j = 0; j < i; ++j) earlier.insert(j);
      std::vector<double> row(at + 1, 0);
      for (const auto& [j, weight] : pooled_row(raw, heads, at, earlier)) {
        row[static_cast<std::size_t>(j)] = weight;
      }
      held.clear();
      const auto order = i > 0 ? by_weight(row, i - 1) : std::vector<int>();
      for (int rank = 0; rank < (full ? i : std::min(policy.capacity, i)); ++rank) {
        held.insert(order[static_cast<std::size_t>(rank)]);
      }
      step.visible = held;
      step.visible.insert(i);
    } else {
      step.visible = held;
      const bool at_capacity = static_cast<int>(held.size()) >= policy.capacity;
      if (full || !(policy.hides_newcomer && at_capacity)) step.visible.insert(i);
      const auto shared = pooled_row(policy, heads, at, step.visible);
      for (const auto& [j, weight] : shared) sums[j] += weight;
      held.insert(i);
      while (i + 1 >= policy.full_rows && static_cast<int>(held.size()) > policy.capacity) {
        const int victim = victim_of(policy, held, i, sums, shared, state);
        held.erase(victim);
        sums.erase(victim);
      }
    }
    step.kept = held;
    int left = 0;
    for (const int j : before) left += held.count(j) == 0 ? 1 : 0;
    if (!before.empty())
      step.turnover = static_cast<double>(left) / static_cast<double>(before.size());
    for (const auto& head : heads) {
      const auto& row = head[at];
      Tokens all;
      for (int j = 0; j <= i; ++j) all.insert(j);
      const double total = sum_over(row, all);
      std::vector<std::optional<double>> metrics;
      metrics.emplace_back(total > 0 ? 1 - sum_over(row, step.visible) / total : 0);
      for (const auto& needed : needed_tokens(row, i)) {
        metrics.emplace_back();
        if (needed.empty()) continue;
        int missed = 0;
        for (const int j : needed) missed += step.visible.count(j) == 0 ? 1 : 0;
        metrics.back() = static_cast<double>(missed) / static_cast<double>(needed.size());
      }
      step.metrics.push_back(metrics);
    }
    steps.push_back(step);
  }
  return steps;
}

}  // namespace kvreplay::testing
