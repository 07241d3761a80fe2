// What policies that go by queries, keys and values keep, written from their definitions alone:
// dense matrices, maps, and every score found afresh. Nothing is shared with the engine.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "simulator/matrix.hpp"

namespace kvreplay::testing {

using Vector = std::vector<double>;
using Tokens = std::set<int>;

/// What the heads of one unit computed with.
struct UnitData {
  Heads rows;                                // of its query heads
  std::vector<std::vector<Vector>> queries;  // [head][token]
  std::vector<Vector> keys;                  // [token]
  std::vector<Vector> values;                // [token]

  const Vector& key(int j) const { return keys[static_cast<std::size_t>(j)]; }
  const Vector& value(int j) const { return values[static_cast<std::size_t>(j)]; }
};

inline double product(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

inline double length(const Vector& a) {
  return std::sqrt(product(a, a));
}
/// As a trace stores it.
inline double fp32(double x) {
  return static_cast<double>(static_cast<float>(x));
}

/// The lowest of these scores leaves, and of equals the lowest token.
using Scores = std::map<int, double>;
inline int lowest(const Scores& scores) {
  int found = scores.begin()->first;
  for (const auto& [token, score] : scores) {
    if (score < scores.at(found)) found = token;
  }
  return found;
}

/// The kept set after every step. `scores(held, i)` are those of the tokens that may leave at step
/// i, asked for once a step; `full`: the rows of a prompt that is attended in full.
using ScoresOf = std::function<Scores(const Tokens& held, int i)>;
inline std::vector<Tokens> kept_by(int n, int k, int full, const ScoresOf& scores) {
  std::vector<Tokens> kept;
  Tokens held;
  for (int i = 0; i < n; ++i) {
    held.insert(i);
    if (i + 1 >= full && static_cast<int>(held.size()) > k) {
      auto found = scores(held, i);
      while (static_cast<int>(held.size()) > k) {
        const int token = lowest(found);
        found.erase(token);
        held.erase(token);
      }
    }
    kept.push_back(held);
  }
  return kept;
}

/// All but the newest `recent` and the first `sinks` tokens, by some number of each.
inline Scores scores_by(const Tokens& held, int i, int sinks, int recent,
                        const std::function<double(int)>& number) {
  Scores scores;
  for (const int j : held) {
    if (j >= sinks && j <= i - recent) scores[j] = number(j);
  }
  return scores;
}

inline ScoresOf knorm_scores(const UnitData& unit, int recent) {
  return [&unit, recent](const Tokens& held, int i) {
    return scores_by(held, i, 0, recent, [&](int j) { return -fp32(length(unit.key(j))); });
  };
}

inline ScoresOf keydiff_scores(const UnitData& unit, int recent) {
  return [&unit, recent](const Tokens& held, int i) {
    Vector mean(unit.key(0).size(), 0.0);
    for (const int j : held) {
      const double norm = length(unit.key(j));
      for (std::size_t c = 0; c < mean.size() && norm > 0; ++c) {
        mean[c] += unit.key(j)[c] / norm / static_cast<double>(held.size());
      }
    }
    // The angle to the mean of two directions is half of that between them, for both.
    if (held.size() == 2) return scores_by(held, i, 0, recent, [](int) { return 0.0; });
    return scores_by(held, i, 0, recent, [&](int j) {
      const double norms = length(mean) * length(unit.key(j));
      return norms > 0 ? -product(mean, unit.key(j)) / norms : 0;
    });
  };
}

/// Of a head's row i over `seen`, divided by its sum or not; the mean over the unit's heads.
inline Scores row_over(const UnitData& unit, const Tokens& seen, int i, bool renormalise) {
  Scores row;
  for (const auto& head : unit.rows) {
    double sum = 0;
    for (const int j : seen) sum += at(head, i, j);
    for (const int j : seen) {
      const double weight = renormalise ? (sum > 0 ? at(head, i, j) / sum : 0) : at(head, i, j);
      row[j] += weight / static_cast<double>(unit.rows.size());
    }
  }
  return row;
}

struct ValueWeighted {
  int heavy = 0;
  int recent = 0;
  int sinks = 0;
  bool renormalise = true;
  bool l1 = false;
};

/// Every row that a token saw is summed anew.
inline std::vector<Tokens> value_weighted_sets(const UnitData& unit, const ValueWeighted& policy,
                                               int full) {
  const int n = static_cast<int>(unit.keys.size());
  std::vector<Tokens> kept;
  std::map<int, Scores> rows;  // by step
  Tokens held;
  for (int i = 0; i < n; ++i) {
    held.insert(i);
    rows[i] = row_over(unit, held, i, policy.renormalise);
    while (i + 1 >= full && static_cast<int>(held.size()) > policy.heavy + policy.recent) {
      held.erase(lowest(scores_by(held, i, policy.sinks, policy.recent, [&](int j) {
        double sum = 0;
        for (const auto& [step, row] : rows) {
          if (row.count(j) != 0) sum += row.at(j);
        }
        double norm = 0;
        for (const double number : unit.value(j)) norm += std::abs(number);
        return sum * (policy.l1 ? norm : fp32(length(unit.value(j))));
      })));
    }
    kept.push_back(held);
  }
  return kept;
}

/// The deviations of chunk c, scaled by chunk c + 1, through a softmax.
inline Vector lag_weights(const std::vector<Vector>& vectors, int first, int lag) {
  Vector weights;
  double sum = 0;
  for (int j = first; j < first + lag; ++j) {
    Vector scaled;
    for (std::size_t c = 0; c < vectors[0].size(); ++c) {
      std::set<double> next;
      for (int other = first + lag; other < first + 2 * lag; ++other) {
        next.insert(vectors[static_cast<std::size_t>(other)][c]);
      }
      const double range = *next.rbegin() - *next.begin();
      if (range > 0) {
        scaled.push_back((vectors[static_cast<std::size_t>(j)][c] - *next.begin()) / range);
      }
    }
    const double channels = static_cast<double>(scaled.size());
    double mean = 0;
    for (const double number : scaled) mean += number / channels;
    double squares = 0;
    for (const double number : scaled) squares += (number - mean) * (number - mean);
    weights.push_back(std::exp(channels > 1 ? std::sqrt(squares / (channels - 1)) : 0));
    sum += weights.back();
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

/// The ranks of the tokens first .. first + lag - 1 within their chunk.
inline std::vector<int> lagkv_ranks(const UnitData& unit, int first, int lag) {
  Vector scores = lag_weights(unit.keys, first, lag);
  const Vector values = lag_weights(unit.values, first, lag);
  for (std::size_t j = 0; j < scores.size(); ++j) scores[j] += values[j];
  std::vector<int> ranks(scores.size());
  for (std::size_t j = 0; j < scores.size(); ++j) {
    for (std::size_t other = 0; other < scores.size(); ++other) {
      if (scores[other] < scores[j] || (scores[other] == scores[j] && other < j)) ++ranks[j];
    }
  }
  return ranks;
}

/// Tokens of chunks that are not scored do not leave.
inline ScoresOf lagkv_scores(const UnitData& unit, int sinks, int lag) {
  std::vector<std::vector<int>> chunks;
  const int n = static_cast<int>(unit.keys.size());
  for (int first = sinks; first + 2 * lag <= n; first += lag) {
    chunks.push_back(lagkv_ranks(unit, first, lag));
  }
  return [chunks, sinks, lag](const Tokens& held, int i) {
    Scores scores;
    for (int first = sinks; first + 2 * lag <= i + 1; first += lag) {
      const auto& ranks = chunks[static_cast<std::size_t>((first - sinks) / lag)];
      for (int j = 0; j < lag; ++j) {
        if (held.count(first + j) > 0) scores[first + j] = ranks[static_cast<std::size_t>(j)];
      }
    }
    return scores;
  };
}

}  // namespace kvreplay::testing
