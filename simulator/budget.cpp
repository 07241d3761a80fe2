#include "simulator/budget.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "policies/arguments.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {
namespace {

constexpr std::size_t kMostBudgets = 100'000;

[[noreturn]] void refuse(std::string_view piece, const std::string& why) {
  throw std::invalid_argument("budget " + in_quotes(piece) + ": " + why);
}

BudgetRequest parse_one(std::string_view text, std::string_view piece) {
  BudgetRequest request;
  if (text.ends_with("%prompt")) {
    request.unit = BudgetRequest::Unit::percent_of_prompt;
  } else if (text.ends_with('%')) {
    request.unit = BudgetRequest::Unit::percent;
  }
  const bool percent = request.unit != BudgetRequest::Unit::tokens;
  if (percent) text = text.substr(0, text.rfind('%'));
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), request.amount,
                                            std::chars_format::fixed);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    refuse(piece,
           "not a count such as 64, a percentage such as 20% or 20%prompt, a range "
           "first:last:step such as 10%:50%:10%, or all");
  }
  if (!percent && request.amount != std::floor(request.amount)) {
    refuse(piece, "a count of tokens is a whole number; write a percentage of n with a % sign");
  }
  if (!(request.amount > 0)) refuse(piece, "a budget holds at least one token");
  if (percent && request.amount > 100) refuse(piece, "more than 100% of the tokens");
  if (request.amount > std::numeric_limits<std::uint32_t>::max()) {
    refuse(piece, "more tokens than any trace holds");
  }
  return request;
}

void add_range(std::string_view piece, std::vector<BudgetRequest>& requests) {
  const auto first_colon = piece.find(':');
  const auto second_colon = piece.find(':', first_colon + 1);
  if (second_colon == std::string_view::npos ||
      piece.find(':', second_colon + 1) != std::string_view::npos) {
    refuse(piece, "a range is written first:last:step, for example 64:1024:64 or 10%:50%:10%");
  }
  const auto first = parse_one(piece.substr(0, first_colon), piece);
  const auto last = parse_one(piece.substr(first_colon + 1, second_colon - first_colon - 1), piece);
  const auto step = parse_one(piece.substr(second_colon + 1), piece);
  if (first.unit != last.unit || first.unit != step.unit) {
    refuse(piece, "first, last and step must all be counts or all percentages of the same");
  }
  if (first.amount > last.amount) refuse(piece, "the range ends before it begins");
  // A step that does not fit evenly in binary, such as 0.1, must still reach the last value.
  const double count = std::floor((last.amount - first.amount) / step.amount + 1e-9) + 1;
  if (count > kMostBudgets) {
    refuse(piece, "more than " + std::to_string(kMostBudgets) + " budgets; take a larger step");
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const double exact = first.amount + static_cast<double>(i) * step.amount;
    requests.push_back({std::round(exact * 1e9) / 1e9, first.unit});
  }
}

}  // namespace

std::string BudgetRequest::text() const {
  switch (unit) {
    case Unit::tokens:
      return number_text(amount);
    case Unit::percent:
      return number_text(amount) + "%";
    case Unit::percent_of_prompt:
      return number_text(amount) + "%prompt";
    case Unit::every:
      return "all";
  }
  throw std::logic_error("unknown unit of a budget");
}

std::vector<BudgetRequest> parse_budgets(std::string_view text) {
  std::vector<BudgetRequest> requests;
  while (true) {
    const auto comma = text.find(',');
    const auto piece = text.substr(0, comma);
    if (piece == "all") {
      requests.push_back({.unit = BudgetRequest::Unit::every});
    } else if (piece.find(':') != std::string_view::npos) {
      add_range(piece, requests);
    } else {
      requests.push_back(parse_one(piece, piece));
    }
    if (requests.size() > kMostBudgets) refuse(piece, "too many budgets in one run");
    if (comma == std::string_view::npos) return requests;
    text.remove_prefix(comma + 1);
  }
}

std::vector<ResolvedBudget> resolve_budgets(const std::vector<BudgetRequest>& requests,
                                            std::uint32_t n, std::uint32_t prompt,
                                            std::string_view trace) {
  std::vector<ResolvedBudget> budgets;
  std::unordered_map<std::uint32_t, std::size_t> places;  // by tokens
  const auto add = [&](ResolvedBudget budget) {
    const auto [place, is_new] = places.emplace(budget.budget.tokens, budgets.size());
    if (is_new) {
      budgets.push_back(std::move(budget));
    } else if (auto& known = budgets[place->second]; !budget.of_all) {
      if (known.text != budget.text) known.same.push_back(budget.text);
      known.of_all = false;
    }
  };
  for (const auto& request : requests) {
    if (request.unit == BudgetRequest::Unit::every) {
      for (std::uint32_t k = 1; k <= n; ++k) {
        add({.text = std::to_string(k), .budget = {k}, .of_all = true});
      }
      continue;
    }
    double tokens = request.amount;
    if (request.unit != BudgetRequest::Unit::tokens) {
      const bool of_prompt = request.unit == BudgetRequest::Unit::percent_of_prompt;
      if (of_prompt && prompt == 0) {
        throw std::invalid_argument("budget " + request.text() + ": " + std::string(trace) +
                                    " has no prompt; give its length, --prompt-len");
      }
      // 29% of 100 is 28.999... in binary; it means 29.
      tokens = std::max(1.0, std::floor(request.amount * (of_prompt ? prompt : n) / 100 + 1e-9));
    }
    if (tokens > n) {
      throw std::invalid_argument("budget " + request.text() + " is above the " +
                                  std::to_string(n) + (n == 1 ? " token of " : " tokens of ") +
                                  std::string(trace) + "; 100% is the most");
    }
    add({.text = request.text(), .budget = {static_cast<std::uint32_t>(tokens)}});
  }
  return budgets;
}

}  // namespace kvreplay
