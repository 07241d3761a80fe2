// A slow replay of composed kept sets, written from the definitions alone: the whole history of
// what every token was given is kept, and every score is computed from it afresh at every step.
// Nothing is shared with the engine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "matrix.hpp"

namespace kvreplay::testing {

struct ComposedPolicy {
  int capacity = 0;
  int sinks = 0;
  int recent = 0;
  std::set<int> pinned = {};
  int batch = 1;
  bool evicts_first = false;
  bool renormalise = true;

  enum class By { age, sum, mean, decay, window, max, last, lru, lfu, below, above, random };
  By by = By::age;
  double decay = 1;
  int window = 1;
  bool of_seen = false;  ///< the even share of counts: of what a row sees, or of all so far
  bool half = false;
  int from = 0;  ///< first row that scores
  std::function<double(double)> set_score = {};
  std::uint64_t seed = 0;
};

struct ComposedStep {
  std::set<int> visible;
  std::set<int> kept;
};

class ComposedReplay {
 public:
  using Row = std::map<int, double>;

  ComposedReplay(const ComposedPolicy& policy, const Matrix& matrix)
      : policy_(policy), matrix_(matrix), state_(policy.seed) {}

  std::vector<ComposedStep> run() {
    std::vector<ComposedStep> steps;
    for (int i = 0; i < static_cast<int>(matrix_.size()); ++i) {
      held_.insert(i);
      if (policy_.evicts_first) evict(i);
      ComposedStep step;
      step.visible = held_;
      history_.push_back(seen_row(i));
      if (!policy_.evicts_first) evict(i);
      step.kept = held_;
      steps.push_back(step);
    }
    return steps;
  }

 private:
  using By = ComposedPolicy::By;

  Row seen_row(int i) const {
    const auto& row = matrix_[static_cast<std::size_t>(i)];
    double mass = 0;
    for (const int j : held_) mass += row[static_cast<std::size_t>(j)];
    Row seen;
    for (const int j : held_) {
      const double weight = row[static_cast<std::size_t>(j)];
      seen[j] = !policy_.renormalise ? weight : mass > 0 ? weight * (1 / mass) : 0;
    }
    return seen;
  }

  void evict(int i) {
    if (static_cast<int>(held_.size()) <= policy_.capacity) return;
    for (int round = 0; round < policy_.batch; ++round) {
      std::vector<int> candidates;
      for (const int j : held_) {
        if (j >= policy_.sinks && j <= i - policy_.recent && policy_.pinned.count(j) == 0) {
          candidates.push_back(j);
        }
      }
      if (policy_.evicts_first && candidates.size() > 1 && candidates.back() == i) {
        candidates.pop_back();
      }
      if (candidates.empty()) return;
      held_.erase(worst(candidates));
    }
  }

  int worst(const std::vector<int>& candidates) {
    if (policy_.by == By::random) {
      state_ = state_ * 6364136223846793005U + 1442695040888963407U;
      return candidates[(state_ >> 32) % candidates.size()];
    }
    int worst = candidates[0];
    double least = 0;
    for (const int j : candidates) {
      double value = score(j);
      if (policy_.set_score) {
        double others = 0;
        for (const int other : held_) others += other == j ? 0 : score(other);
        value = -policy_.set_score(others);
      }
      if (j == candidates[0] || value < least) {
        least = value;
        worst = j;
      }
    }
    return worst;
  }

  /// What the rows that score gave to token j, oldest first.
  std::vector<double> given(int j) const {
    std::vector<double> weights;
    for (int t = std::max(j, policy_.from); t < static_cast<int>(history_.size()); ++t) {
      weights.push_back(history_[static_cast<std::size_t>(t)].at(j));
    }
    return weights;
  }

  double rounded(double x) const { return policy_.half ? half(x) : x; }

  double score(int j) const {
    const int rows = static_cast<int>(history_.size());
    const auto weights = given(j);
    double z = 0;
    switch (policy_.by) {
      case By::age:
      case By::random:
        return j;
      case By::sum:
      case By::mean:
        for (const double p : weights) z = rounded(z + rounded(p));
        if (policy_.by == By::sum || weights.empty()) return z;
        return z / static_cast<double>(weights.size());
      case By::decay:
        for (const double p : weights) z = rounded(policy_.decay * z + rounded(p));
        return z;
      case By::max:
        for (const double p : weights) z = rounded(std::max(z, p));
        return z;
      case By::window:
        for (std::size_t t = 0; t < weights.size(); ++t) {
          if (t + static_cast<std::size_t>(policy_.window) >= weights.size()) z += weights[t];
        }
        return z;
      case By::last:
        return weights.empty() ? 0 : weights.back();
      case By::lru:
      case By::lfu:
      case By::below:
      case By::above:
        break;
    }
    double last_use = -1;
    double uses = 0;
    double below = 0;
    double above = 0;
    for (int t = j; t < rows; ++t) {
      const Row& row = history_[static_cast<std::size_t>(t)];
      const double among = static_cast<double>(row.size());
      const bool use = row.at(j) * among >= 1 - 1e-9;
      if (use) last_use = t;
      uses += use ? 1 : 0;
      if (t < rows - policy_.window) continue;
      const bool much = row.at(j) * (policy_.of_seen ? among : t + 1) >= 1 - 1e-9;
      (much ? above : below) += 1;
    }
    if (policy_.by == By::lru) return last_use;
    if (policy_.by == By::lfu) return uses;
    return policy_.by == By::above ? above : -below;
  }

  ComposedPolicy policy_;
  const Matrix& matrix_;
  std::uint64_t state_;
  std::set<int> held_;
  std::vector<Row> history_;
};

}  // namespace kvreplay::testing
