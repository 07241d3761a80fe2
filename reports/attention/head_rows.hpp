// The rows of heads, each read once, for studies of what attention looks like: sinks, sparsity,
// persistence, overlap, entropy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "reports/each_unit.hpp"
#include "simulator/plan.hpp"
#include "traces/row_source.hpp"
#include "traces/run_control.hpp"

namespace kvreplay::attention {

/// The i + 1 weights of query i as recorded, none negative, and their sum, which is above 0.
struct Row {
  std::uint32_t i = 0;
  std::span<const float> weights;
  double sum = 0;
};

/// Reads the rows of one head after the other. Keeps scratch space; one per thread.
class HeadRows {
 public:
  /// Both outlive the object.
  HeadRows(const RowSource& source, const ReplayPlan& plan) : source_(source), plan_(plan) {}

  /// Calls use(row) for the recorded rows that give something, in order. Returns how many give
  /// nothing; none: stopped. Throws InputError for a row that is no probabilities.
  std::optional<std::uint64_t> each(const UnitPlan& head, const std::function<bool()>& stopped,
                                    const std::function<void(const Row&)>& use);

 private:
  const RowSource& source_;
  const ReplayPlan& plan_;
  std::vector<float> scratch_;
};

/// What a study found of one head.
template <class Found>
struct OfHead {
  std::uint32_t layer = 0;       ///< model index
  std::uint32_t head = 0;        ///< model index
  std::uint64_t empty_rows = 0;  ///< recorded rows that give nothing; they are in no figure
  Found found;
};

using LookAtHead = std::function<HandOver(const UnitPlan& head, HeadRows& rows,
                                          const std::function<bool()>& stopped)>;

/// Looks at the heads of a plan on so many threads, and runs what is handed over in the plan's
/// order, never two at once. False: stopped, some heads are missing.
bool each_head(const RowSource& source, const ReplayPlan& plan, unsigned threads,
               const RunControl& control, const LookAtHead& look);

/// Shows every head's rows to a study of its own, made by begin(): look(row) for each, found()
/// behind the last. take() gets what was found in the plan's order, so that what it adds up does
/// not depend on threads. The plan is of scope head. False: stopped, some heads are missing.
template <class Begin, class Take>
bool study_heads(const RowSource& source, const ReplayPlan& plan, const Begin& begin,
                 unsigned threads, const RunControl& control, const Take& take) {
  using Found = std::decay_t<decltype(begin().found())>;
  const auto look = [&](const UnitPlan& head, HeadRows& rows,
                        const std::function<bool()>& stopped) -> HandOver {
    auto study = begin();
    const auto empty = rows.each(head, stopped, [&](const Row& row) { study.look(row); });
    if (!empty) return {};
    const auto found = std::make_shared<OfHead<Found>>(
        OfHead<Found>{head.layer, head.index, *empty, study.found()});
    return [&take, found] { take(*found); };
  };
  return each_head(source, plan, threads, control, look);
}

}  // namespace kvreplay::attention
