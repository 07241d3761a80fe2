// What is measured of a head at each checkpoint, named.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "simulator/plan.hpp"

namespace kvreplay::agreement {

/// Local scores after step i of the tokens j <= i.
enum class Scores {
  raw,          ///< sum of p_rj over the rows r <= i
  renormalised  ///< what h2o has at the budget: over the rows r <= i that saw j, p_rj divided by
                ///< what of the row was visible; a token that has left keeps its last
};

/// What they are set against, of the same tokens.
enum class Against {
  global,       ///< sum of p_rj over all rows r
  global_null,  ///< rows r <= i, plus the future sums in random order over the tokens
  future,       ///< sum over the rows r > i, none of which the local scores know
  future_null   ///< the same in random order: what chance gives
};

enum class Measure { overlap, jaccard, spearman, kendall_tau_b, rbo };

constexpr std::array<Scores, 2> kAllScores = {Scores::raw, Scores::renormalised};
constexpr std::array<Against, 4> kAllAgainst = {Against::global, Against::global_null,
                                                Against::future, Against::future_null};
constexpr std::array<Measure, 5> kAllMeasures = {
    Measure::overlap, Measure::jaccard, Measure::spearman, Measure::kendall_tau_b, Measure::rbo};

/// "raw", "renormalised"
std::string_view name(Scores scores);
/// "global", "global-null", "future", "future-null"
std::string_view name(Against against);
/// "overlap", "jaccard", "spearman", "kendall_tau_b", "rbo"
std::string_view name(Measure measure);
/// Whether it is of the k best tokens, not of the whole order.
constexpr bool is_of_top(Measure measure) {
  return measure == Measure::overlap || measure == Measure::jaccard;
}

struct Quantity {
  Scores scores = Scores::raw;
  Against against = Against::global;
  Measure measure = Measure::overlap;
  std::optional<std::size_t> budget;  ///< of BudgetCells; none: raw scores, whole order

  bool operator==(const Quantity&) const = default;
};

/// Every quantity at every budget.
std::vector<Quantity> all_quantities(std::size_t budgets);

}  // namespace kvreplay::agreement
