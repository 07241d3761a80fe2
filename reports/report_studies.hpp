// What the report shows of findings: by trace, as small as charts need.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "reports/findings_file.hpp"

namespace kvreplay {

/// `manifests` are those of the results in the same report.
///   studies[]  trace (the heading: the file's name, and more where other data bear it too), model,
///              tokens, headline (sentences), figures[] (see figure.hpp), sources (names of files),
///              and of what there is, each with partial and only (some_heads() of its trace)
///     powerlaw   rows, sinks, ks, caveat, medians (by scores {alpha, ks}), places[] {layer, head
///     (null: of the layer), fits by
///                scores {verdict, in_words, n_used, n_tail, xmin, alpha, stderr, ks, p, lr by
///                family [lr, p, collapsed], x, share (accumulated and null only)}}
///     sinks      epsilon, overall, classes, heads[] as in the file
///     agreement  steps, budgets, heads[] as in the file
///   claims[]   by the traces of a model in a file: source, heading, headline, partial, rows[] as
///   in
///              the file
/// Findings stand under the trace of results of the same name only where no fact that both state
/// differs. Throws std::invalid_argument for two findings of one kind on one trace, InputError for
/// findings that are not as the analyses write them.
nlohmann::json report_studies(std::span<const FindingsFile> findings,
                              std::span<const nlohmann::json> manifests);

}  // namespace kvreplay
