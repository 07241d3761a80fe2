#include "reports/commands/against_summary.hpp"

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "reports/commands/replay_summary.hpp"
#include "reports/commands/shown_budgets.hpp"
#include "reports/text_table.hpp"
#include "traces/size_text.hpp"

namespace kvreplay::commands {
namespace {

/// Lines by budgets, in the order in which they are first filled; "-" where nothing was put.
class BudgetTable {
 public:
  explicit BudgetTable(const ReplayPlan& plan) : budgets_(shown_budgets(plan)) {}
  void put(const std::string& line, const CellPlan& cell, double value) {
    if (std::find(lines_.begin(), lines_.end(), line) == lines_.end()) lines_.push_back(line);
    entries_[{line, cell.budget.budget.tokens}] = fixed(value, 4);
  }
  void print(const std::string& title) const {
    if (lines_.empty()) return;
    std::vector<std::string> header = {"policy"};
    for (const auto& [tokens, text] : budgets_) header.push_back(text);
    TextTable table(header);
    for (const auto& line : lines_) {
      std::vector<std::string> row = {line};
      for (const auto& [tokens, text] : budgets_) {
        const auto entry = entries_.find({line, tokens});
        row.push_back(entry == entries_.end() ? "-" : entry->second);
      }
      table.add(row);
    }
    std::cout << "\n" << title << "\n" << table.text("  ");
  }

 private:
  std::map<std::uint32_t, std::string> budgets_;
  std::vector<std::string> lines_;
  std::map<std::pair<std::string, std::uint32_t>, std::string> entries_;
};

/// Which policies are set against no optimum, and why.
void print_unbounded(const ReplayPlan& plan, const Against& against) {
  std::map<std::pair<std::string, std::string>, std::set<std::uint32_t>> where;  // policy, why
  std::map<std::string, std::size_t> cells;
  for (std::size_t cell = 0; cell < plan.cells.size(); ++cell) {
    const CellPlan& one = plan.cells[cell];
    ++cells[one.policy.text];
    if (against.places[cell]) continue;
    where[{one.policy.text, why_unbounded(plan, one)}].insert(one.budget.budget.tokens);
  }
  const auto budgets = shown_budgets(plan);
  for (const auto& [line, tokens] : where) {
    std::string at;
    std::size_t listed = 0;
    for (const auto& [held, text] : budgets) {
      if (!tokens.contains(held)) continue;
      at += (at.empty() ? " at " : ", ") + text;
      ++listed;
    }
    if (const auto others = tokens.size() - listed; others > 0) {
      at += (at.empty() ? " at " : " and ") + counted(others, "budget") +
            (others == 1 ? " that is" : " that are") + " not listed";
    }
    const bool everywhere = tokens.size() == cells.at(line.first);
    std::cout << wrapped("  no share: ",
                         line.first + (everywhere ? "" : at) + ", as " + line.second);
  }
}

}  // namespace

void print_optima(const Against& against, unsigned threads) {
  std::uint64_t bytes = 0;
  for (const auto& optimum : against.optima) {
    bytes = std::max(bytes, estimated_bytes(optimum.plan, threads));
  }
  const auto& units = against.optima.front().plan.replay.units;
  std::cout << "  against  the optimum of " << counted(units.size(), "kept set")
            << (against.optima.size() > 1 ? ", also with the prompt attended in full" : "")
            << ": up to about " << size_text(bytes) << std::endl;
}

void print_against(const ReplayPlan& plan, const ReplayOutcome& outcome, const Against& against) {
  if (!whole(plan, outcome) || !against.whole()) return;
  BudgetTable shares(plan);
  BudgetTable losses(plan);
  const auto splits = overall_splits(plan, outcome, against);
  for (std::size_t cell = 0; cell < plan.cells.size(); ++cell) {
    const auto& split = splits[cell];
    if (!split) continue;
    const CellPlan& one = plan.cells[cell];
    const bool with_prompt = against.places[cell]->optimum > 0;
    shares.put(one.policy.text, one, split->share_of_optimum());
    losses.put(with_prompt ? "(optimum, prompt in full)" : "(optimum)", one,
               split->working_set_loss);
    losses.put(one.policy.text, one, split->policy_loss());
  }
  shares.print("share_of_optimum = (1 - mass_loss) / (1 - working_set_loss)");
  losses.print("policy_loss = mass_loss - working_set_loss, which is the line (optimum)");
  print_unbounded(plan, against);
}

}  // namespace kvreplay::commands
