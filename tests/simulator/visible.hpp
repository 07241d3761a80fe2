// What rows saw, from the steps of a cell, compared with a reference.
#pragma once

#include <catch2/catch.hpp>

#include "h2o_reference.hpp"
#include "random_rows.hpp"
#include "stepper.hpp"

namespace kvreplay::testing {

/// The sets that the plan's only cell lets each row see.
inline Visible visible_sets(const ReplayPlan& plan, const std::vector<Step>& steps) {
  const CellPlan& cell = plan.cells.at(0);
  const bool choice = std::holds_alternative<ChoiceFactory>(cell.policy.entry->make);
  Visible visible;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool full = i < full_rows(plan, cell.traits);
    const auto& seen = choice || (cell.traits.evicts_first && !full) ? steps[i].kept
                       : i > 0                                       ? steps[i - 1].kept
                                                                     : steps[0].kept;
    visible.emplace_back(seen.begin(), seen.end());
    visible.back().insert(static_cast<int>(i));
  }
  return visible;
}

/// Runs `policy` on one head and checks what every row sees and loses, and that sets keep to their
/// bounds.
inline void check_visible(const Matrix& rows, const std::string& policy, int budget,
                          const Visible& expected, int prompt = 0,
                          Prefill prefill = Prefill::stream) {
  INFO(policy << " at " << budget << " of " << rows.size() << ", prompt " << prompt);
  const auto source = in_memory({{rows}}, 1);
  auto request = request_for(policy, std::to_string(budget));
  request.prompt_tokens = static_cast<std::uint32_t>(prompt);
  request.prefill = prefill;
  const auto plan = plan_replay(source.info(), "t", request);
  const auto steps = all_steps(source, plan);
  const auto visible = visible_sets(plan, steps);
  const Traits& traits = plan.cells[0].traits;
  REQUIRE(visible.size() == expected.size());
  for (std::size_t i = 0; i < visible.size(); ++i) {
    INFO("row " << i);
    REQUIRE(visible[i] == expected[i]);
    REQUIRE(*steps[i].metrics[6] == static_cast<double>(expected[i].size()));
    const double total = sum_over(rows[i], between(0, static_cast<int>(i)));
    const double loss = total > 0 ? 1 - sum_over(rows[i], expected[i]) / total : 0;
    REQUIRE(*steps[i].metrics[0] == Approx(loss).margin(1e-11));
    if (i < full_rows(plan, traits)) continue;
    REQUIRE(steps[i].kept.size() <= traits.capacity);
    REQUIRE(visible[i].size() <= most_visible(traits));
  }
}

}  // namespace kvreplay::testing
