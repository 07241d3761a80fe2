#include "reports/agreement/quantities.hpp"

namespace kvreplay::agreement {

std::string_view name(Scores scores) {
  return scores == Scores::raw ? "raw" : "renormalised";
}

std::string_view name(Against against) {
  switch (against) {
    case Against::global:
      return "global";
    case Against::global_null:
      return "global-null";
    case Against::future:
      return "future";
    case Against::future_null:
      return "future-null";
  }
  return "";
}

std::string_view name(Measure measure) {
  switch (measure) {
    case Measure::overlap:
      return "overlap";
    case Measure::jaccard:
      return "jaccard";
    case Measure::spearman:
      return "spearman";
    case Measure::kendall_tau_b:
      return "kendall_tau_b";
    case Measure::rbo:
      return "rbo";
  }
  return "";
}

std::vector<Quantity> all_quantities(std::size_t budgets) {
  std::vector<Quantity> quantities;
  for (const auto scores : kAllScores) {
    for (const auto against : kAllAgainst) {
      for (const auto measure : kAllMeasures) {
        if (scores == Scores::raw && !is_of_top(measure)) {
          quantities.push_back({scores, against, measure, std::nullopt});
          continue;
        }
        for (std::size_t budget = 0; budget < budgets; ++budget) {
          quantities.push_back({scores, against, measure, budget});
        }
      }
    }
  }
  return quantities;
}

}  // namespace kvreplay::agreement
