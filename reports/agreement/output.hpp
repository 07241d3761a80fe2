// Agreements as CSV.
#pragma once

#include <span>
#include <string>

#include "reports/agreement/agreement.hpp"

namespace kvreplay::agreement {

/// Columns trace, layer, head, scores, against, budget, budget_tokens, step, measure, statistic,
/// value, low, high. Lines without a step are means over steps with their interval: of the whole
/// trace, each layer and each head that is done. Lines with one are of the whole trace and each
/// layer: the mean over heads at that checkpoint, or over the segment that ends there, and of the
/// whole trace also the quantiles p5 and p95 over heads. `scores` are those of h2o, h2o-global or
/// optimum where the measure is a mass_loss or an extra_loss. Without a trace: over several.
std::string to_csv(std::span<const Agreement* const> traces, const Bootstrap& bootstrap);

}  // namespace kvreplay::agreement
