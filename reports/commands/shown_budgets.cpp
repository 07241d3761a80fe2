#include "reports/commands/shown_budgets.hpp"

namespace kvreplay::commands {

std::map<std::uint32_t, std::string> all_budgets(const ReplayPlan& plan) {
  std::map<std::uint32_t, std::string> budgets;
  for (const auto& cell : plan.cells) budgets.emplace(cell.budget.budget.tokens, cell.budget.text);
  return budgets;
}

std::map<std::uint32_t, std::string> shown_budgets(const ReplayPlan& plan) {
  return shown_of(all_budgets(plan));
}

}  // namespace kvreplay::commands
