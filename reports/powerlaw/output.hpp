// Analyses as JSON and as CSV.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "reports/powerlaw/analysis.hpp"
#include "reports/powerlaw/attention.hpp"

namespace kvreplay::powerlaw {

/// Numbers in the fewest digits that read back exactly; what is not known, not finite or without
/// meaning is null. Keys: status ("ok",
/// "insufficient_distinct_values", "no_number_from_xmin_on"), n, n_used, n_nan, n_inf,
/// n_nonpositive, distinct, ks_convention, candidates, xmin, alpha, alpha_at_bound, stderr, n_tail,
/// ks, runner_up {xmin, ks}, loglik, p, replicates, replicates_not_fittable, alternatives
/// {NAME: {lr, vuong, p, collapsed, loglik, parameters}}, gini, top_share {"1%": ...}, ccdf {x,
/// share} (of n_used, as in ccdf.hpp), verdict, in_words, caveat.
nlohmann::ordered_json to_json(const Analysis& analysis, const Method& method,
                               std::string_view caveat);

/// One line for each quantity of each analysis: trace,layer,head,scores,quantity,detail,value.
/// `detail` is the alternative, the part of top_share, or the verdict, whose value is 1. No line
/// for what is not known.
std::string to_csv(std::string_view trace, const std::vector<Place>& places,
                   const std::vector<Scores>& scores);

}  // namespace kvreplay::powerlaw
