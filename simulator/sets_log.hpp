// The kept set of every step as text, so that a small replay can be checked by hand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "simulator/plan.hpp"

namespace kvreplay {

/// One line of the log, tab-separated: layer, head (or group; 0 at layer scope), policy, budget in
/// tokens, step, the tokens that left at this step ("-": none), the kept set after it.
std::string sets_line(const CellPlan& cell, const UnitPlan& unit, std::uint32_t step,
                      std::span<const std::uint32_t> evicted, std::span<const std::uint32_t> kept);

/// Collects the lines of units that end in any order.
class SetsLog {
 public:
  /// Throws std::invalid_argument where the log of `plan` would list more than kMostTokens tokens.
  explicit SetsLog(const ReplayPlan& plan);
  static constexpr std::uint64_t kMostTokens = 2'000'000;

  /// `lines` by cell.
  void add(std::size_t unit, std::span<const std::string> lines);
  /// A header line and all lines by unit, cell and step.
  std::string text() const;

 private:
  std::mutex mutex_;
  std::vector<std::string> units_;
};

}  // namespace kvreplay
