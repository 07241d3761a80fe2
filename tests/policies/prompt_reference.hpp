// What policies that choose once after the prompt keep, written from their definitions alone: sets,
// maps and loops over every token, nothing shared with the engine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "simulator/deal_budgets.hpp"
#include "simulator/random_rows.hpp"
#include "simulator/stepper.hpp"

namespace kvreplay::testing {

using Matrix = std::vector<std::vector<double>>;
using Scores = std::map<int, double>;  // of the tokens that may be chosen

/// The row of the heads that share a kept set.
inline double pooled(const Heads& heads, Pooling pooling, int i, int j) {
  double total = 0;
  for (const auto& head : heads) {
    const double weight = head[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
    total = pooling == Pooling::max ? std::max(total, weight) : total + weight;
  }
  return pooling == Pooling::mean && heads.size() > 1 ? total / static_cast<double>(heads.size())
                                                      : total;
}

inline Matrix pooled_rows(const Heads& heads, Pooling pooling) {
  Matrix rows = heads[0];
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
    for (int j = 0; j <= i; ++j) {
      rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] = pooled(heads, pooling, i, j);
    }
  }
  return rows;
}

inline double at(const Matrix& rows, int i, int j) {
  return rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
}

/// Sums over the rows `from` to m - 1 of the weight on each of the tokens 0 to `tokens` - 1.
inline Scores sums(const Matrix& rows, int from, int m, int tokens) {
  Scores scores;
  for (int j = 0; j < tokens; ++j) {
    scores[j] = 0;
    for (int i = std::max(from, j); i < m; ++i) scores[j] += at(rows, i, j);
  }
  return scores;
}

inline Scores smoothed(const Scores& scores, const std::string& pool, int kernel) {
  Scores result;
  for (const auto& [j, own] : scores) {
    double sum = 0;
    double most = own;
    for (int near = j - kernel / 2; near <= j + kernel / 2; ++near) {
      if (scores.count(near) == 0) continue;
      sum += scores.at(near);
      most = std::max(most, scores.at(near));
    }
    result[j] = pool == "max" ? most : sum / kernel;
  }
  return result;
}

/// The `count` best; among equals the newest.
inline Tokens best(const Scores& scores, int count) {
  std::vector<int> order;
  for (const auto& [j, score] : scores) order.insert(order.begin(), j);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return scores.at(a) > scores.at(b); });
  Tokens chosen;
  for (int rank = 0; rank < count; ++rank) chosen.insert(order.at(static_cast<std::size_t>(rank)));
  return chosen;
}

inline void add_range(Tokens& tokens, int first, int last) {
  for (int j = first; j < last; ++j) tokens.insert(j);
}

inline Tokens kvcf_set(const Matrix& rows, int m, int k, int window) {
  Tokens kept;
  if (k >= m) {
    add_range(kept, 0, m);
    return kept;
  }
  kept = best(sums(rows, 0, m, m - window), k - window);
  add_range(kept, m - window, m);
  return kept;
}

inline Tokens snap_set(const Matrix& rows, int m, int k, int window, const std::string& pool,
                       int kernel) {
  Tokens kept;
  if (k >= m) {
    add_range(kept, 0, m);
    return kept;
  }
  kept = best(smoothed(sums(rows, m - window, m, m - window), pool, kernel), k - window);
  add_range(kept, m - window, m);
  return kept;
}

/// The window where none is given.
inline int usual_window(int k, int usual = 32) {
  return usual < k ? usual : std::max(k / 2, 1);
}

/// A request for scope head over a prompt of m tokens.
inline ReplayRequest prompt_request(const std::string& policy, int k, int m,
                                    Scope scope = Scope::head) {
  auto request = request_for(policy, std::to_string(k), scope);
  request.prompt_tokens = static_cast<std::uint32_t>(m);
  return request;
}

/// Requires of a policy that evicts once: all of the prompt before its end, then `chosen`, and what
/// is decoded on top.
inline void check_grows(const std::vector<Step>& steps, int m, const Tokens& chosen) {
  Tokens kept;
  for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
    INFO("step " << i);
    kept.insert(i);
    if (i == m - 1) kept = chosen;
    REQUIRE(steps[static_cast<std::size_t>(i)].kept ==
            std::vector<std::uint32_t>(kept.begin(), kept.end()));
  }
}

/// The documented random numbers of layer 0, unit `unit`.
class ReferenceRandom {
 public:
  ReferenceRandom(std::uint64_t seed, std::uint64_t unit) : state_(seed ^ scrambled(unit)) {}
  double exponential() {
    state_ += 11400714819323198485U;
    const std::uint64_t bits = scrambled(state_) / 4096;  // the upper 52
    const double uniform = (static_cast<double>(bits) + 0.5) / std::exp2(52);
    return -std::log(uniform);
  }

 private:
  static std::uint64_t scrambled(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 13787848793156543929U;
    x = (x ^ (x >> 27)) * 10723151780598845931U;
    return x ^ (x >> 31);
  }
  std::uint64_t state_;
};

}  // namespace kvreplay::testing
