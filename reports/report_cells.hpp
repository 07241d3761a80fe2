// The numbers of results that a report shows, by trace, policy and budget.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/report_source.hpp"

namespace kvreplay::report {

struct Number {
  double value = 0;
  std::size_t source = 0;   ///< which file it was read from first
  std::uint64_t steps = 0;  ///< how many it is the mean of
};

/// (layer, unit) -> mean; the unit is 0 at scope layer
using Places = std::map<std::pair<std::uint32_t, std::uint32_t>, Number>;

/// One policy with one set of parameters at one budget.
struct Cell {
  std::string parameters;
  std::optional<std::uint64_t> samples;
  // metric -> statistic -> value over all layers and heads
  std::map<std::string, std::map<std::string, Number>> values;
  /// metric -> from -> samples between that and its double, over all layers and heads
  std::map<std::string, std::map<double, double>> octaves;
  Places losses;
  Places policy_losses;       // of those, the policy's own part
  Places working_set_losses;  // and the rest
  std::string unbounded;      // why no optimum of another file bounds it

  Places* places_of(std::string_view metric) {
    if (metric == "mass_loss") return &losses;
    if (metric == "policy_loss") return &policy_losses;
    if (metric == "working_set_loss") return &working_set_losses;
    return nullptr;
  }
};

/// What shares its charts: one trace at one scope.
struct Group {
  std::string trace;
  std::string scope;
  std::set<std::size_t> sources;
  std::set<std::uint32_t> layers;
  std::set<std::uint32_t> units;
  std::map<std::uint32_t, std::set<std::string>> budgets;  // tokens -> as asked for
  std::vector<std::string> policies;                       // by name, in order of appearance
  std::map<std::string, std::string> bounds;               // by name, of those that are one
  std::set<std::uint32_t> replayed;  // tokens of what is no optimum, which has all budgets at once
  // (policy, tokens) -> its variants, in order of appearance
  std::map<std::pair<std::string, std::uint32_t>, std::vector<Cell>> cells;
};

/// In order of appearance. `manifests` by source. Throws std::invalid_argument where two rows
/// differ about the same number.
std::vector<Group> collect_groups(std::span<const ReportSource> sources,
                                  std::span<const nlohmann::json> manifests);

}  // namespace kvreplay::report
