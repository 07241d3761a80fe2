// What policies that choose once after the prompt keep, written from their definitions alone: sets,
// maps and loops over every token, nothing shared with the engine.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "asked.hpp"
#include "simulator/deal_budgets.hpp"
#include "simulator/random_rows.hpp"
#include "simulator/stepper.hpp"

namespace kvreplay::testing {

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

/// The window where none is given.
inline int usual_window(int k, int usual = 32) {
  return usual < k ? usual : std::max(k / 2, 1);
}

/// Whether the window that is asked for can be had of a budget.
inline bool window_fits(const Asked& asked, int k, int least = 1) {
  const int window = asked.tokens("window", k, usual_window(k));
  return window >= least && window <= k;
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

inline Tokens observed_set(const Matrix& rows, int m, int k, int recent) {
  Tokens kept;
  add_range(kept, std::max(m - recent, 0), m);
  if (recent >= m) return kept;
  auto means = sums(rows, 0, m, m - recent);
  for (auto& [j, mean] : means) mean /= m - j;
  for (const int j : best(means, std::min(k, m) - recent)) kept.insert(j);
  return kept;
}

/// What SnapKV's rows give the tokens before the window, smoothed. `usual` is the pool.
inline Scores snap_scores(const Matrix& rows, int m, int window, const Asked& asked,
                          const std::string& usual = "avg") {
  const auto pool = asked.word("pool", usual);
  const int kernel = asked.count("kernel", pool == "avg" ? 5 : 7);
  return smoothed(sums(rows, m - window, m, m - window), pool, kernel);
}

/// `tokens` of them, the window included, which comes from the budget k.
inline Tokens snap_set(const Matrix& rows, int m, int k, int tokens, const Asked& asked,
                       const std::string& usual = "avg") {
  Tokens kept;
  const int window = asked.tokens("window", k, usual_window(k));
  if (tokens >= m) {
    add_range(kept, 0, m);
    return kept;
  }
  kept = best(snap_scores(rows, m, window, asked, usual), tokens - window);
  add_range(kept, m - window, m);
  return kept;
}

/// A request for scope head over a prompt of m tokens.
inline ReplayRequest prompt_request(const std::string& policy, int k, int m,
                                    Scope scope = Scope::head) {
  auto request = request_for(policy, std::to_string(k), scope);
  request.prompt_tokens = static_cast<std::uint32_t>(m);
  return request;
}

/// What is kept, by step.
using Sets = std::vector<std::vector<std::uint32_t>>;

inline std::vector<std::uint32_t> listed(const Tokens& tokens) {
  return {tokens.begin(), tokens.end()};
}

/// Of a policy that evicts once: all of the prompt before its end, then `chosen` and what is
/// decoded on top.
inline Sets grown(int n, int m, const Tokens& chosen) {
  Sets sets;
  Tokens kept;
  for (int i = 0; i < n; ++i) {
    kept.insert(i);
    if (i == m - 1) kept = chosen;
    sets.push_back(listed(kept));
  }
  return sets;
}

inline void check_sets(const std::vector<Step>& steps, const Sets& expected) {
  REQUIRE(steps.size() == expected.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kept == expected[i]) continue;  // a message for each of them would take long
    INFO("step " << i);
    REQUIRE(steps[i].kept == expected[i]);
  }
}

inline void check_grows(const std::vector<Step>& steps, int m, const Tokens& chosen) {
  check_sets(steps, grown(static_cast<int>(steps.size()), m, chosen));
}

/// The documented random numbers of a unit of a layer.
class ReferenceRandom {
 public:
  ReferenceRandom(std::uint64_t seed, std::uint64_t layer, std::uint64_t unit)
      : state_(seed ^ scrambled(layer * 4294967296U + unit)) {}
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

struct NaclParts {
  int sinks = 0;
  int recent = 0;
  int drawn = 0;
  int sum() const { return sinks + recent + drawn; }
};

/// Shares of the budget: 0.05 at the ends, half of them and at most 256 first; 0.35 drawn.
inline NaclParts nacl_parts(const Asked& asked, int k) {
  NaclParts parts;
  const int ends = k / 20;
  parts.sinks = asked.tokens("sinks", k, std::min(ends - ends / 2, 256));
  parts.recent = asked.tokens("recent", k, std::max(ends - parts.sinks, 0));
  parts.drawn = asked.tokens("drawn", k, 35 * k / 100);
  return parts;
}

inline Tokens nacl_set(const Matrix& rows, int m, int k, const Asked& asked, int layer = 0,
                       int unit = 0) {
  Tokens kept;
  if (k >= m) {
    add_range(kept, 0, m);
    return kept;
  }
  const NaclParts parts = nacl_parts(asked, k);
  const int window = asked.count("window", std::max(m / 100, 1));
  auto scores = sums(rows, m - window, m, m - parts.recent);
  for (int j = 0; j < parts.sinks; ++j) scores.erase(j);
  kept = best(scores, k - parts.sum());
  Scores rest;
  ReferenceRandom random(asked.seed(), static_cast<std::uint64_t>(layer),
                         static_cast<std::uint64_t>(unit));
  for (const auto& [j, score] : scores) {
    if (kept.count(j) == 0) rest[j] = score - std::log(random.exponential());
  }
  for (const int j : best(rest, parts.drawn)) kept.insert(j);
  add_range(kept, 0, parts.sinks);
  add_range(kept, m - parts.recent, m);
  return kept;
}

/// Of the heads that share a set, each head's row divided by what it gives to `visible`, then
/// pooled.
inline Scores pooled_visible(const Heads& heads, Pooling pooling, int i, const Tokens& visible) {
  Scores pooled;
  for (const auto& rows : heads) {
    const double mass = sum_over(rows[static_cast<std::size_t>(i)], visible);
    for (const int j : visible) {
      const double weight = mass > 0 ? at(rows, i, j) / mass : 0;
      pooled[j] = pooling == Pooling::max ? std::max(pooled[j], weight) : pooled[j] + weight;
    }
  }
  if (pooling == Pooling::mean) {
    for (auto& [j, weight] : pooled) weight /= static_cast<double>(heads.size());
  }
  return pooled;
}

/// Kept sets of keyformer, with the softmax of logits and noise as it is written down.
inline Sets keyformer_sets(const Heads& heads, Pooling pooling, int m, int k, const Asked& asked,
                           int layer = 0, int unit = 0) {
  const int n = static_cast<int>(heads[0].size());
  const int recent = asked.tokens("recent", k, 3 * k / 10);
  ReferenceRandom random(asked.seed(), static_cast<std::uint64_t>(layer),
                         static_cast<std::uint64_t>(unit));
  Tokens held;
  Scores scores;
  Sets sets;
  for (int i = 0; i < n; ++i) {
    held.insert(i);
    const double decoded = i < m ? 0 : i - m + 1;
    const double tau = asked.number("tau", 1) + asked.number("delta", 0.01) * decoded;
    Scores logits;
    double most = -INFINITY;
    for (const auto& [j, weight] : pooled_visible(heads, pooling, i, held)) {
      logits[j] = (std::log(weight) - std::log(random.exponential())) / tau;
      most = std::max(most, logits[j]);
    }
    double sum = 0;
    for (const auto& [j, logit] : logits) sum += std::exp(logit - most);
    for (const auto& [j, logit] : logits) {
      scores[j] += most > -INFINITY ? std::exp(logit - most) / sum : 0;
    }
    while (i + 1 >= m && static_cast<int>(held.size()) > k) {
      int victim = -1;
      for (const int j : held) {
        if (j > i - recent) continue;
        if (victim < 0 || scores[j] < scores[victim]) victim = j;
      }
      held.erase(victim);
    }
    sets.push_back(listed(held));
  }
  return sets;
}

}  // namespace kvreplay::testing
