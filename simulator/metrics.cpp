#include "simulator/metrics.hpp"

#include <algorithm>

namespace kvreplay {

Metrics::Metrics(const ReplayPlan& plan)
    : rules_(plan.needed.size()),
      has_values_(plan.values),
      has_regret_(plan.regrets()),
      has_unions_(plan.unions) {
  names_.emplace_back("mass_loss");
  for (const auto& rule : plan.needed) names_.push_back(rule.metric());
  for (const auto* name : {"kept", "visible", "turnover", "age"}) names_.emplace_back(name);
  if (plan.values) names_.emplace_back("output_error");
  for (const auto& rule : plan.needed) {
    if (!has_regret_) break;
    names_.push_back("regret_" + rule.name());
    names_.push_back("delay_" + rule.name());
  }
  if (plan.unions) {
    for (const auto* name : {"union", "union_bytes", "union_ratio"}) names_.emplace_back(name);
  }
  if (plan.cost) {
    for (const auto* name : {"cost_ns", "state_bytes"}) names_.emplace_back(name);
  }
  for (const auto& name : names_) {
    no_samples_.emplace_back(name == "kept" || name == "visible" || name == "union"
                                 ? Rounding::none
                                 : Rounding::nine_bits);
  }
}

std::uint64_t histogram_bytes(const ReplayPlan& plan, const CellPlan& cell, bool stepwise) {
  const double n = plan.tokens;
  const auto between = [](double least, double most, Rounding rounding = Rounding::nine_bits) {
    return Histogram::bytes_between(least, most, rounding);
  };
  const std::uint64_t rules = plan.needed.size();
  // A unit may be dealt anything up to all tokens.
  const double most = cell.unit_tokens.empty()
                          ? std::max(1U, std::min(cell.traits.capacity, plan.tokens))
                          : plan.tokens;
  const double least =
      stepwise || plan.steps == Steps::all ? 0 : std::min<double>(first_measured(plan, cell), most);
  std::uint64_t bytes = between(0, 1) + rules * between(1 / n, 1);  // mass_loss, misses
  bytes += 2 * between(least, most + 1, Rounding::none);            // kept, visible
  bytes += between(1 / most, 1) + between(0.25, n);                 // turnover, age
  if (plan.values) bytes += between(0, 16);
  if (stepwise) return bytes;
  if (plan.regrets()) bytes += rules * (between(1, 1) + between(1, n));  // regret, delay
  if (plan.unions) {
    bytes += between(0, n, Rounding::none) + between(1, plan.group_size);
    bytes += between(1, n * std::max(1U, plan.head_size) * 4);
  }
  if (plan.cost) bytes += between(1, 1e9) + between(1, 64 * n);
  return bytes;
}

}  // namespace kvreplay
