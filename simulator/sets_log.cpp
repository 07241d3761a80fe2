#include "simulator/sets_log.hpp"

#include <algorithm>
#include <stdexcept>

namespace kvreplay {
namespace {

std::string list(std::span<const std::uint32_t> tokens) {
  std::string text;
  for (const auto token : tokens) text += (text.empty() ? "" : ",") + std::to_string(token);
  return text.empty() ? "-" : text;
}

}  // namespace

std::string sets_line(const CellPlan& cell, const UnitPlan& unit, std::uint32_t step,
                      std::span<const std::uint32_t> evicted, std::span<const std::uint32_t> kept) {
  return std::to_string(unit.layer) + "\t" + std::to_string(unit.index) + "\t" + full_name(cell) +
         "\t" + std::to_string(cell.budget.budget.tokens) + "\t" + std::to_string(step) + "\t" +
         list(evicted) + "\t" + list(kept) + "\n";
}

SetsLog::SetsLog(const ReplayPlan& plan) : units_(plan.units.size()) {
  std::uint64_t tokens = 0;
  for (const auto& cell : plan.cells) {
    tokens += std::uint64_t{plan.tokens} * std::min(cell.traits.capacity, plan.tokens);
    if (tokens > kMostTokens) break;
  }
  if (tokens > kMostTokens / plan.units.size()) {
    throw std::invalid_argument(
        "the kept sets of this run list more than " + std::to_string(kMostTokens) +
        " tokens; take fewer --layers, --heads, policies or budgets, or a shorter trace");
  }
}

void SetsLog::add(std::size_t unit, std::span<const std::string> lines) {
  const std::scoped_lock lock(mutex_);
  for (const auto& cell : lines) units_[unit] += cell;
}

std::string SetsLog::text() const {
  std::string text = "layer\thead\tpolicy\tbudget_tokens\tstep\tevicted\tkept\n";
  for (const auto& lines : units_) text += lines;
  return text;
}

}  // namespace kvreplay
