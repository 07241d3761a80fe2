// The authors' variants of H2O, slowly and from their definitions alone: what each row sees.
#pragma once

#include <cmath>
#include <stdexcept>

#include "reference.hpp"

namespace kvreplay::testing {

/// By row.
using Visible = std::vector<Tokens>;

/// The `count` tokens of the highest score; of equals the later ones.
inline Tokens top(const Tokens& tokens, int count, const std::map<int, double>& scores) {
  std::vector<int> order(tokens.rbegin(), tokens.rend());
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return scores.at(a) > scores.at(b); });
  return {order.begin(), order.begin() + std::clamp<std::ptrdiff_t>(count, 0, std::ssize(order))};
}

inline Tokens between(int first, int last) {
  Tokens tokens;
  for (int j = std::max(first, 0); j <= last; ++j) tokens.insert(j);
  return tokens;
}

inline Tokens both(Tokens one, const Tokens& other) {
  one.insert(other.begin(), other.end());
  return one;
}

inline std::map<int, double> column_sums(const Matrix& rows, int last_row) {
  std::map<int, double> sums;
  for (int i = 0; i <= last_row; ++i) {
    for (int j = 0; j < std::ssize(rows); ++j) sums[j] += j <= i ? at(rows, i, j) : 0;
  }
  return sums;
}

/// Adds row i, divided by its visible mass, to the scores of `visible`.
inline void add_renormalised(const Matrix& rows, int i, const Tokens& visible,
                             std::map<int, double>& scores) {
  const double mass = sum_over(rows[static_cast<std::size_t>(i)], visible);
  for (const int j : visible) scores[j] += mass > 0 ? at(rows, i, j) * (1 / mass) : 0;
}

/// Row (a); the first `full_rows` see everything. In fp16 weights and scores are halves, the sums
/// of the first hb rows once they are complete.
inline Visible lmeval(const Matrix& rows, int hb, int rb, int full_rows = 0, bool in_fp16 = false) {
  const int n = static_cast<int>(rows.size());
  const auto round = [&](double x) { return in_fp16 ? half(x) : x; };
  Visible visible;
  std::map<int, double> scores;
  Tokens heavy;
  for (int t = 0; t < n; ++t) {
    const bool full = t < full_rows;
    if (!full) heavy = top(heavy, hb - 1, scores);
    heavy.insert(t);
    visible.push_back(full ? between(0, t) : both(heavy, between(t - rb, t)));
    for (const int j : heavy) scores[j] += round(at(rows, t, j));
    if (t + 1 >= hb) {
      for (auto& [j, score] : scores) score = round(score);
    }
    if (t + 1 == full_rows) {
      heavy.erase(t);
      heavy = top(heavy, hb - 1, scores);
      heavy.insert(t);
    }
    for (auto& [j, score] : scores) score = heavy.count(j) != 0 ? score : 0;
  }
  return visible;
}

/// Row (b).
inline Visible lmeval_global(const Matrix& rows, int hb, int rb) {
  const int n = static_cast<int>(rows.size());
  const Tokens heavy = top(between(0, n - 1), hb, column_sums(rows, n - 1));
  Visible visible;
  for (int t = 0; t < n; ++t) {
    visible.emplace_back();
    for (int j = 0; j <= t; ++j) {
      if (heavy.count(j) != 0 || j >= t - rb) visible.back().insert(j);
    }
  }
  return visible;
}

/// Row (c), m tokens of prompt; heads that share a kept set add the mean of what each would add.
inline Visible masked(const std::vector<Matrix>& heads, int m, int hb, int rb) {
  const int n = static_cast<int>(heads[0].size());
  Visible visible;
  std::map<int, double> scores;
  Tokens next = {0};
  for (int t = 0; t < n; ++t) {
    visible.push_back(next);
    std::map<int, double> sums;
    for (const auto& rows : heads) add_renormalised(rows, t, next, sums);
    for (const auto& [j, sum] : sums) scores[j] += sum / static_cast<double>(heads.size());
    next = between(0, t + 1);
    if (t + 1 < m || t + 1 <= hb + rb || rb == 0) continue;
    const Tokens kept = top(between(0, t - rb), hb, scores);
    next = both(kept, between(t + 2 - rb, t + 1));
    for (int j = 0; j <= t - rb; ++j) {
      if (kept.count(j) == 0) scores[j] = 0;
    }
  }
  return visible;
}

/// Row (d), m tokens of prompt; the older revision of (c) with rb > 0 too.
inline Visible dropping(const Matrix& rows, int m, int hb, int rb) {
  const int n = static_cast<int>(rows.size());
  Visible visible;
  std::map<int, double> scores;
  Tokens held;
  for (int t = 0; t < n; ++t) {
    held.insert(t);
    visible.push_back(held);
    add_renormalised(rows, t, held, scores);
    if (t + 1 < m || std::ssize(held) <= hb + rb) continue;
    Tokens older;
    for (const int j : held) {
      if (j <= t - rb) older.insert(j);
    }
    held = both(top(older, hb, scores), between(t + 1 - rb, t));
  }
  return visible;
}

/// Row (e), m tokens of prompt, m >= 2K - 1 and K > 1.
inline Visible flexgen(const Matrix& rows, int m, int K, bool in_fp16) {
  if (K < 2) throw std::invalid_argument("the code fails for K = 1");
  const int n = static_cast<int>(rows.size());
  const auto round = [&](double x) { return in_fp16 ? half(x) : x; };
  Visible visible;
  std::map<int, double> sums;
  for (int t = 0; t < m; ++t) {
    visible.push_back(between(0, t));
    std::map<int, double> row;
    add_renormalised(rows, t, visible.back(), row);
    for (const auto& [j, weight] : row) sums[j] += round(weight);
  }
  for (auto& [j, sum] : sums) sum = round(sum);
  std::vector<int> slots;
  const Tokens chosen = top(between(0, m - K), K, sums);
  slots.assign(chosen.begin(), chosen.end());
  std::stable_sort(slots.begin(), slots.end(), [&](int a, int b) { return sums[a] > sums[b]; });
  for (int j = m - K + 1; j < m; ++j) slots.push_back(j);
  std::vector<double> acc;
  for (const int j : slots) acc.push_back(sums[j]);
  slots.push_back(-1);
  acc.push_back(0);
  for (int i = 1; m + i - 1 < n; ++i) {
    const int t = m + i - 1;
    slots.back() = t;
    acc.back() = 0;
    visible.emplace_back(slots.begin(), slots.end());
    std::map<int, double> row;
    add_renormalised(rows, t, visible.back(), row);
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      acc[slot] = round(acc[slot] + round(row[slots[slot]]));
    }
    std::size_t kick = 0;
    for (std::size_t slot = 1; slot < static_cast<std::size_t>(K); ++slot) {
      if (acc[slot] < acc[kick]) kick = slot;
    }
    const auto ring = static_cast<std::size_t>(K) - 1;  // the code counts from the end: -ring
    const std::size_t oldest = static_cast<std::size_t>(K) + static_cast<std::size_t>(i - 1) % ring;
    slots[kick] = slots[oldest];
    acc[kick] = acc[oldest];
    slots[oldest] = slots.back();
    acc[oldest] = acc.back();
  }
  return visible;
}

/// Heavy and recent with sums over the whole sequence.
inline Visible all_seeing(const Matrix& rows, int hb, int rb) {
  const int n = static_cast<int>(rows.size());
  const auto sums = column_sums(rows, n - 1);
  Visible visible;
  Tokens held;
  for (int t = 0; t < n; ++t) {
    held.insert(t);
    visible.push_back(held);
    if (std::ssize(held) <= hb + rb) continue;
    const Tokens older = [&] {
      Tokens tokens;
      for (const int j : held) {
        if (j <= t - rb) tokens.insert(j);
      }
      return tokens;
    }();
    held = both(top(older, hb, sums), between(t + 1 - rb, t));
  }
  return visible;
}

}  // namespace kvreplay::testing
