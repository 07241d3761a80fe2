// What the theory behind H2O takes for granted, measured on a trace (Zhang et al.,
// arXiv:2306.14048: eviction as dynamic submodular maximisation).
//
// The set function after step i is f_i(T) = h(sum of the scores of T), where the scores are the
// rows that greedy eviction has seen, each divided by its visible mass and summed; h is z,
// sqrt(z + 1) or log(z + 1). Greedy eviction drops that token without which f is largest, of all
// kept tokens and the newcomer (h2o-figure) or of those that are not protected (h2o).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/optimum.hpp"

namespace kvreplay {

struct ScoreFunction {
  std::string_view name;
  double (*of)(double sum);
};
extern const std::array<ScoreFunction, 3> score_functions;  ///< z, sqrt(z+1), log(z+1)

/// The scores of a set A, of a larger set B that holds it, and of a token in neither.
struct SampledSets {
  double smaller = 0;
  double larger = 0;
  double token = 0;
};

/// Draws B evenly by size from all but one token, and A evenly by size from B. At least 1 score.
SampledSets draw_sets(std::span<const double> scores, std::mt19937_64& random);

/// Whether a token adds to a larger set no more than to a smaller one, as a submodular function
/// asks.
struct Submodularity {
  std::uint64_t samples = 0;
  std::uint64_t violations = 0;  ///< beyond rounding: 1e-12 of the value
  double worst = 0;              ///< by how much a gain grew at most where it must not
  double gap_sum = 0;            ///< of 1 - gain at the larger / gain at the smaller set
  std::uint64_t gaps = 0;        ///< summed: those of a gain at the smaller set beyond rounding

  void look(const std::function<double(double)>& h, const SampledSets& sets);
  Submodularity& operator+=(const Submodularity& other);
  /// 0: what a token adds does not depend on the set, the function is modular.
  double mean_gap() const { return gaps == 0 ? 0 : gap_sum / static_cast<double>(gaps); }
};

/// How far f moves from step to step while the cache is full, relative to its value.
struct Drift {
  double theta = 0;  ///< most that f_i of the set held lies below f_{i-1} of it; 0 where it rises
  double gamma = 0;  ///< most that the best value of k tokens rises from f_{i-1} to f_i

  void merge(const Drift& other);
};

struct TheoryOfUnit {
  std::array<Submodularity, 3> submodularity;  ///< by score function
  struct AtBudget {
    std::array<Drift, 3> drift;  ///< by score function
    double score_ratio = 1;      ///< least f_i(S_i) / best f_i of k tokens, h = z
    double greedy = 0;           ///< mass that greedy retains, summed over the steps that count
    double optimum = 0;          ///< the same of the exact optimum
    double ratio() const { return optimum > 0 ? greedy / optimum : 1; }
  };
  std::vector<AtBudget> budgets;  ///< as those of the plan
};

struct TheoryPlan {
  OptimumPlan optimum;              ///< of objective mass and scope head
  std::string policy;               ///< the greedy one, as asked for
  std::vector<LowestLeaves> rules;  ///< of it, by budget of the optimum's plan
};

/// `request` has one policy. Throws std::invalid_argument where it is not greedy: does not evict
/// the lowest sum of renormalised rows, after its query has seen what is held and itself.
TheoryPlan plan_theory(const TraceInfo& info, std::string_view trace, const ReplayRequest& request);

/// By unit; empty: stopped before it was done. `samples` sets are drawn for each unit, at up to 16
/// steps; seeded, so that they do not depend on which units are looked at.
std::vector<TheoryOfUnit> check_theory(const RowSource& source, const TheoryPlan& plan,
                                       std::uint32_t samples, std::uint64_t seed, unsigned threads,
                                       const RunControl& control);

}  // namespace kvreplay
