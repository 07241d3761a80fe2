// Budgets as a user asks for them: "64", "20%", "20%prompt", "64:1024:64", lists of these, "all".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policies/policy.hpp"

namespace kvreplay {

/// A budget that still has to learn the length of the sequence.
struct BudgetRequest {
  enum class Unit { tokens, percent, percent_of_prompt, every };  ///< percent: of n
  double amount = 0;                                              ///< not of `every`: 1 to n
  Unit unit = Unit::tokens;  ///< percentages are rounded down, but to at least 1 token

  std::string text() const;  ///< "20%", "20%prompt", "64", "all"
};

/// Comma-separated counts, percentages, inclusive ranges first:last:step, and "all". Throws
/// std::invalid_argument saying what is wrong with which piece.
std::vector<BudgetRequest> parse_budgets(std::string_view text);

struct ResolvedBudget {
  std::string text;
  Budget budget;
  std::vector<std::string> same = {};  ///< later ones that come to as many tokens
  bool of_all = false;                 ///< not asked for by itself: left out where a policy cannot
};

/// For a sequence of n tokens, `prompt` of them the prompt's, in the order asked for; of several
/// that come to the same number of tokens the first stays. Throws std::invalid_argument for one
/// above n, and for a share of a prompt that is not there, naming `trace`.
std::vector<ResolvedBudget> resolve_budgets(const std::vector<BudgetRequest>& requests,
                                            std::uint32_t n, std::uint32_t prompt,
                                            std::string_view trace);

}  // namespace kvreplay
