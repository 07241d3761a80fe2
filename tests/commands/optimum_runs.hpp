// Runs of kvreplay optimum, and the means in results.
#pragma once

#include "bench.hpp"
#include "simulator/results.hpp"

namespace kvreplay::testing {

inline ProgramRun optimum(const Bench& bench, const std::string& options) {
  return run_kvreplay("optimum '" + bench.path("t.h5") + "' " + options);
}

/// The mean over all layers and heads.
inline double mean_of(const Results& results, const std::string& policy, std::uint32_t budget,
                      const std::string& metric) {
  for (const auto& row : results.rows) {
    if (row.policy == policy && row.budget_tokens == budget && row.metric == metric && !row.layer &&
        row.statistic == "mean") {
      return row.value;
    }
  }
  FAIL(policy << " at " << budget << " has no " << metric);
  return 0;
}

}  // namespace kvreplay::testing
