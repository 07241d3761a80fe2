// What the HTML report shows, picked from results: curves, best policies, head maps, headlines.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "reports/findings_file.hpp"
#include "reports/report_source.hpp"

namespace kvreplay {

/// Merges the sources into one object per (trace, scope), in order of appearance:
///   groups[]  trace, scope, model, tokens (n, 0 where unknown), headline (sentences),
///             over (what averages are over, in words), partial (whether heads are missing),
///             replayed (indices of the budgets of policies; an optimum is known at more), listed
///             (those of them that tables have)
///     series[]   name, policy, bound (null, "recoverable", "optimum", "full"), note (how it
///                differs from what was published, or empty): a policy with one set of
///                parameters; where a policy comes with several, the i-th at each budget belong
///                together and the parameters that tell them apart are part of the name
///     budgets[]  tokens (ascending), share ("20%", "20%prompt" or empty)
///     values     metric -> statistic -> [series][budget], over all layers and heads; null where no
///                step counts or nothing was replayed
///     parameters, samples  [series][budget] of the mean loss
///     unranked   [series][budget] why a loss cannot be set against others: "steps" (not as many
///                samples as most policies have at the budget), "size" (queries see more than k + 1
///                tokens on average); null: it can
///     unbounded  [series][budget] why no optimum of another file bounds the loss; null: it does
///     best[]     per budget: first, second: indices of the series with the lowest mean loss and
///                with the next one (several where they tie), bounds and unranked left out
///     map        layers, units (heads, KV groups; empty at scope layer), values
///                [series][budget][layer * units + unit]: mean loss to five digits; null: no
///                rows; policy_loss (alike): beyond that of the optimum that bounds it
///     octaves    metric -> [series][budget]: {from, count}, how many samples lie from a power of
///     two
///                to below its double; null where they are not known, or the budget is not listed
///     alike      facts: means are taken over traces for which they are equal only
///   Before the groups of several traces of one model, one of their means: report_traces.hpp.
///   studies, claims  of the findings: report_studies.hpp
///   needed     metric -> rule of its needed set
/// Throws InputError where a manifest is not a JSON object or nothing is there to show,
/// std::invalid_argument where nothing is given or two rows differ about the same number.
nlohmann::json report_data(std::span<const ReportSource> sources,
                           std::span<const FindingsFile> findings = {});

}  // namespace kvreplay
