// From what a replay measured to the tidy rows and the manifest that results files hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "simulator/plan.hpp"
#include "simulator/replay.hpp"
#include "simulator/results.hpp"
#include "traces/trace.hpp"

namespace kvreplay {

/// Whether a metric is 0 where a cache holds every token.
bool is_loss(std::string_view metric);

/// Appends the rows of one trace: overall, then by layer, then by head, as far as the
/// plan goes into detail; within each by cell, metric
/// and statistic. What has no samples has no rows, except that at a budget of n tokens, where no
/// step finds the cache full, losses and miss rates are 0 over 0 steps.
void add_rows(const ReplayPlan& plan, const ReplayOutcome& outcome, Results& results);

/// One trace's part in the manifest.
struct ReplayedTrace {
  TraceInfo info;
  ReplayPlan plan;
  ReplayOutcome outcome;
  std::string rows_xxh3 = {};  ///< as TraceReader::rows_xxh3()
};

/// How the whole run went.
struct RunFacts {
  std::vector<std::string> command;  ///< the options that were given
  std::uint64_t seed = 0;
  unsigned threads = 1;
  std::string started;  ///< UTC, ISO 8601
  double seconds = 0;
  std::string objective = {};               ///< of the optimum that was found; empty: none was
  std::vector<std::string> not_begun = {};  ///< traces that an interrupted run did not come to
  /// Where the last trace is replayed and its optimum was interrupted: what is done, in words.
  std::string optimum_done = {};
};

std::string manifest_json(const std::vector<ReplayedTrace>& traces, const RunFacts& facts);

}  // namespace kvreplay
