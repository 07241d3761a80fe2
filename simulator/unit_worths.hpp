// The rows of a unit as what its tokens are worth to each query, over all of its heads.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "simulator/objective.hpp"
#include "simulator/plan.hpp"
#include "traces/row_source.hpp"

namespace kvreplay {

/// Keeps scratch space; one per thread.
class UnitWorths {
 public:
  /// All outlive the object.
  UnitWorths(const RowSource& source, const ReplayPlan& plan, const Objective& objective);

  /// Calls use(i, worths, samples) for all rows; `worths` of the tokens 0..i are summed over the
  /// heads, `samples` is how many heads have one. False: stopped. Throws InputError for a row that
  /// is no probabilities.
  bool each(const UnitPlan& unit, const std::function<bool()>& stopped,
            const std::function<void(std::uint32_t, std::span<const double>, std::uint32_t)>& use);

 private:
  const RowSource& source_;
  const ReplayPlan& plan_;
  const Objective& objective_;
  std::vector<Worths> worths_;               // by head
  std::vector<std::vector<float>> scratch_;  // by head
  std::vector<std::vector<float>> norms_;    // of values, by head
  std::vector<double> pooled_;
};

}  // namespace kvreplay
