// How much the tokens that rows attend most change from step to step.
#pragma once

#include <cstdint>
#include <vector>

#include "reports/attention/head_rows.hpp"
#include "simulator/needed.hpp"

namespace kvreplay::attention {

struct OverlapQuestion {
  std::vector<std::uint32_t> budgets;  ///< k: tokens that a row selects
  std::vector<std::uint32_t> lags;     ///< steps between two rows, at least 1
  Encoding encoding = Encoding::fp32;
};

/// Over pairs of rows i - lag and i, both active (they hold more than k tokens), each of which
/// selects its k largest weights (the needed set top:k).
struct Overlap {
  std::uint64_t pairs = 0;
  double shared = 0;  ///< sum of |T_{i-lag} n T_i| / k
  double chance = 0;  ///< sum of k / (i+1): what k tokens out of i+1 at random share

  Overlap& operator+=(const Overlap& other);
};

/// What a study of one head remembers of the rows that it looks back to.
std::uint64_t remembered_bytes(const OverlapQuestion& question, std::uint32_t tokens);

class OverlapStudy {
 public:
  /// `question` outlives the object.
  OverlapStudy(const OverlapQuestion& question, std::uint32_t tokens);

  void look(const Row& row);
  /// By budget and, within, by lag, as in the question.
  const std::vector<Overlap>& found() const { return found_; }

 private:
  std::vector<std::uint64_t>& selected(std::size_t budget, std::uint32_t i) {
    return sets_[budget * slots_ + i % slots_];
  }

  const OverlapQuestion& question_;
  std::size_t slots_;                // rows that are looked back to, and the row itself
  std::vector<std::uint32_t> rows_;  // by slot: i + 1 of the row there, 0: none
  std::vector<std::vector<std::uint64_t>> sets_;  // by budget and slot, as bits
  NeededFinder finder_;
  std::vector<Overlap> found_;
};

}  // namespace kvreplay::attention
