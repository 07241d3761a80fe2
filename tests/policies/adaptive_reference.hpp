// What policies that deal a budget out over layers or heads give to each and keep, written from
// their definitions alone.
#pragma once

#include <numeric>

#include "prompt_reference.hpp"

namespace kvreplay::testing {

/// [layer][unit]: the rows by which each kept set is chosen.
using Model = std::vector<Heads>;
/// [layer][unit]
using Dealt = std::vector<std::vector<int>>;

inline Dealt same_for_all(const Model& model, int tokens) {
  Dealt dealt;
  for (const auto& units : model) dealt.emplace_back(units.size(), tokens);
  return dealt;
}

/// By layer, a fraction of a token as the rest of a division: each is rounded down, and what that
/// leaves of the budget goes one each to the first layers that lost a fraction.
inline Dealt pyramidkv_tokens(const Model& model, int m, int k, const Asked& asked) {
  const int layers = static_cast<int>(model.size());
  const int window = asked.tokens("window", k, usual_window(k));
  const int base = k - window;
  if (k >= m || m < 2 * base || layers == 1) return same_for_all(model, k);
  int low = base / asked.count("beta", 20);
  int high = 2 * base - low;
  if (high >= m - window) {
    high = m - window;
    low = 2 * base - high;
  }
  std::vector<int> tokens;
  std::vector<int> losers;
  for (int layer = 0; layer < layers; ++layer) {
    const int exact = high * (layers - 1) - layer * (high - low);  // times layers - 1
    tokens.push_back(exact / (layers - 1));
    if (exact % (layers - 1) != 0) losers.push_back(layer);
  }
  for (const int layer : losers) {
    if (std::accumulate(tokens.begin(), tokens.end(), 0) == base * layers) break;
    ++tokens[static_cast<std::size_t>(layer)];
  }
  Dealt dealt;
  for (std::size_t layer = 0; layer < model.size(); ++layer) {
    dealt.emplace_back(model[layer].size(), window + tokens[layer]);
  }
  return dealt;
}

/// Tokens of the units of one layer, counted one token at a time.
inline std::vector<int> adakv_layer(const Heads& units, int m, int k, const Asked& asked) {
  const double floor = asked.number("floor", 0.2);
  const int window = asked.tokens("window", k, usual_window(k));
  const int base = k - window;
  struct Candidate {
    double score;
    int unit;
    int token;
  };
  std::vector<Candidate> places;
  for (int unit = 0; unit < static_cast<int>(units.size()); ++unit) {
    const auto scores = snap_scores(units[static_cast<std::size_t>(unit)], m, window, asked, "max");
    for (const auto& [token, score] : scores) places.push_back({score, unit, token});
  }
  std::sort(places.begin(), places.end(), [](const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.unit != b.unit ? a.unit > b.unit : a.token > b.token;
  });
  std::vector<int> counts(units.size(), 0);
  for (int rank = 0; rank < base * static_cast<int>(units.size()); ++rank) {
    ++counts[static_cast<std::size_t>(places[static_cast<std::size_t>(rank)].unit)];
  }
  std::vector<int> budgets;
  for (const int count : counts) {
    budgets.push_back(
        static_cast<int>(std::nearbyint(count * (1 - floor) + std::floor(base * floor))));
  }
  // Too many by rounding: the one that rounding raised most gives one back.
  while (std::accumulate(budgets.begin(), budgets.end(), 0) >
         base * static_cast<int>(units.size())) {
    std::size_t most = 0;
    const auto raised = [&](std::size_t unit) {
      return budgets[unit] - (counts[unit] * (1 - floor) + std::floor(base * floor));
    };
    for (std::size_t unit = 1; unit < units.size(); ++unit) {
      if (raised(unit) > raised(most)) most = unit;
    }
    --budgets[most];
  }
  for (int& budget : budgets) budget += window;
  return budgets;
}

inline Dealt adakv_tokens(const Model& model, int m, int k, const Asked& asked) {
  if (k >= m) return same_for_all(model, k);
  Dealt dealt;
  for (const auto& units : model) dealt.push_back(adakv_layer(units, m, k, asked));
  return dealt;
}

inline double row_mean(const Matrix& rows, int first, int last, int j) {
  double sum = 0;
  for (int i = first; i < last; ++i) sum += at(rows, i, j);
  return sum / (last - first);
}

inline double row_variance(const Matrix& rows, int first, int last, int j) {
  if (last - first < 2) return 0;
  const double mean = row_mean(rows, first, last, j);
  double sum = 0;
  for (int i = first; i < last; ++i) sum += (at(rows, i, j) - mean) * (at(rows, i, j) - mean);
  return sum / (last - first - 1);
}

/// H^(1/tau1) V^(1/tau2) of a layer; H is no less than 0.
inline long double cake_preference(const Heads& units, int m, int window, const Asked& asked) {
  double entropy = 0;
  double variance = 0;
  for (const auto& rows : units) {
    for (int j = 0; j < m - window; ++j) {
      for (int i = m - window; i < m; ++i) {
        if (at(rows, i, j) > 0) entropy -= at(rows, i, j) * std::log(at(rows, i, j));
      }
      variance += row_variance(rows, m - window, m, j);
    }
  }
  // In a wider range than double's, for low temperatures.
  return std::pow(static_cast<long double>(std::max(entropy, 0.0)), 1 / asked.number("tau1", 1)) *
         std::pow(static_cast<long double>(variance), 1 / asked.number("tau2", 1));
}

/// Handed out as the program does: what is above all of a layer's tokens, then what rounding left.
inline Dealt cake_tokens(const Model& model, int m, int k, const Asked& asked) {
  if (k >= m) return same_for_all(model, k);
  const int window = asked.tokens("window", k, usual_window(k));
  const int layers = static_cast<int>(model.size());
  const int total = (k - window) * layers;
  std::vector<long double> preference;
  for (const auto& units : model) preference.push_back(cake_preference(units, m, window, asked));
  const long double sum = std::accumulate(preference.begin(), preference.end(), 0.0L);
  std::vector<int> budgets;
  int excess = 0;
  int rounded = 0;
  for (const long double one : preference) {
    const auto exact = static_cast<double>(sum > 0 ? one / sum * total : 1.0L * total / layers);
    const int share = static_cast<int>(exact);
    budgets.push_back(std::min(share, m - window));
    excess += share - budgets.back();
    rounded += share;
  }
  for (int left : {excess, total - rounded}) {
    while (left > 0) {
      std::vector<std::size_t> below;
      for (std::size_t layer = 0; layer < budgets.size(); ++layer) {
        if (budgets[layer] < m - window) below.push_back(layer);
      }
      if (below.empty()) break;
      const int each = left / static_cast<int>(below.size());
      const int first = left % static_cast<int>(below.size());
      left = 0;
      for (int rank = 0; rank < static_cast<int>(below.size()); ++rank) {
        int& budget = budgets[below[static_cast<std::size_t>(rank)]];
        budget += each + (rank < first ? 1 : 0);
        left += std::max(budget - (m - window), 0);
        budget = std::min(budget, m - window);
      }
    }
  }
  Dealt dealt;
  for (std::size_t layer = 0; layer < model.size(); ++layer) {
    dealt.emplace_back(model[layer].size(), window + budgets[layer]);
  }
  return dealt;
}

inline Sets cake_sets(const Matrix& rows, int m, int k, int tokens, const Asked& asked) {
  const int window = asked.tokens("window", k, usual_window(k));
  Sets sets;
  Tokens held;
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
    held.insert(i);
    if (i == m - 1 && tokens < m) {
      Scores scores;
      for (int j = 0; j < m - window; ++j) {
        scores[j] = row_mean(rows, m - window, m, j) +
                    asked.number("gamma", 200) * row_variance(rows, m - window, m, j);
      }
      held = best(smoothed(scores, "avg", 5), tokens - window);
      add_range(held, m - window, m);
    }
    if (i >= m && static_cast<int>(held.size()) > tokens) {
      // Neighbours are those that are still there.
      const std::vector<int> order(held.begin(), held.end());
      Scores means;
      for (int place = 0; place + window < static_cast<int>(order.size()); ++place) {
        means[place] =
            row_mean(rows, i + 1 - window, i + 1, order[static_cast<std::size_t>(place)]);
      }
      const auto scores = smoothed(means, "avg", 5);
      int victim = 0;
      for (const auto& [place, score] : scores) {
        if (score < scores.at(victim)) victim = place;
      }
      held.erase(order[static_cast<std::size_t>(victim)]);
    }
    sets.push_back(listed(held));
  }
  return sets;
}

struct LazyParts {
  int sinks = 0;
  int recent = 0;
};

/// Four sinks, or as many as recent leaves; recent: what sinks leave.
inline LazyParts lazy_parts(const Asked& asked, int k) {
  LazyParts parts;
  const int room = asked.has("recent") ? std::max(k - asked.tokens("recent", k, 0), 0) : k;
  parts.sinks = asked.tokens("sinks", k, std::min(4, room));
  parts.recent = asked.tokens("recent", k, std::max(k - parts.sinks, 0));
  return parts;
}

/// All of the prompt, or as many as sinks and recent, where they get more than the threshold of the
/// last rows' mass, on average over rows and units.
inline Dealt simlayerkv_tokens(const Model& model, int m, int k, const Asked& asked) {
  const auto [sinks, recent] = lazy_parts(asked, k);
  const int first = std::max(m - asked.count("window", 1), 0);
  Dealt dealt;
  for (const auto& units : model) {
    double masses = 0;
    for (const auto& rows : units) {
      double mass = 0;
      for (int i = first; i < m; ++i) {
        double inside = 0;
        double all = 0;
        for (int j = 0; j <= i; ++j) {
          all += at(rows, i, j);
          if (j < sinks || j >= m - recent) inside += at(rows, i, j);
        }
        if (all > 0) mass += inside / all;
      }
      masses += mass / (m - first);
    }
    const bool lazy = masses / static_cast<double>(units.size()) > asked.number("threshold", 0.9);
    dealt.emplace_back(units.size(), lazy ? sinks + recent : m);
  }
  return dealt;
}

inline Tokens simlayerkv_set(int m, int k, int tokens, const Asked& asked) {
  Tokens kept;
  add_range(kept, 0, m);
  if (tokens >= m) return kept;
  const auto [sinks, recent] = lazy_parts(asked, k);
  for (int j = sinks; j < m - recent; ++j) kept.erase(j);
  return kept;
}

}  // namespace kvreplay::testing
