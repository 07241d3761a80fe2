// The findings file of `kvreplay analyze agreement`.
#pragma once

#include <nlohmann/json.hpp>

#include "reports/agreement/agreement.hpp"

namespace kvreplay::agreement {

/// Into `findings`: margin; steps[C], those of the checkpoints; segment_ends[C + 1], the last row
/// of each; budgets[] {budget, tokens, verdict, extra, future, chance (each {value, low, high} or
/// null), h2o, h2o_global, optimum (mean losses, null: not known), extra_loss[C + 1]}; curves[]
/// {scores, against, measure, budget (index, null: of none), mean[C], p5[C], p95[C] (over heads),
/// estimate}; heads[] {layer, head, extra[budget], future[budget][C], chance[budget][C]}: overlap
/// of raw scores with the future, and by chance. Null: not known.
void add_agreement(const Agreement& found, const Bootstrap& bootstrap, double margin,
                   nlohmann::ordered_json& findings);

}  // namespace kvreplay::agreement
