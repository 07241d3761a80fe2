#include "reports/attention/head_rows.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "simulator/pooled_rows.hpp"

namespace kvreplay::attention {

std::optional<std::uint64_t> HeadRows::each(const UnitPlan& head,
                                            const std::function<bool()>& stopped,
                                            const std::function<void(const Row&)>& use) {
  const auto& held = plan_.sampling;
  std::uint64_t empty = 0;
  for (std::uint32_t next = held.next(0); next < plan_.tokens;) {
    if (stopped()) return std::nullopt;
    const RowRange slab = rows_from(next, plan_.tokens, kSlabValues);
    const auto values = source_.rows(head.heads[0], slab, scratch_);
    for (std::uint32_t i = next; i < slab.last; i += held.every) {
      const auto offset = RowLayout::offset(i) - RowLayout::offset(slab.first);
      const auto weights = values.subspan(offset, i + std::size_t{1});
      const double sum = sum_of_row(plan_, head, 0, i, weights);
      if (sum > 0) {
        use({i, weights, sum});
      } else {
        ++empty;
      }
    }
    next = held.next(slab.last);
  }
  return empty;
}

bool each_head(const RowSource& source, const ReplayPlan& plan, unsigned threads,
               const RunControl& control, const LookAtHead& look) {
  std::map<std::size_t, HandOver> waiting;  // for heads before them
  std::size_t handed_over = 0;
  const auto in_order = [&](std::size_t head, HandOver hand_over) {
    waiting.emplace(head, std::move(hand_over));
    for (auto first = waiting.begin(); first != waiting.end() && first->first == handed_over;
         first = waiting.erase(first), ++handed_over) {
      first->second();
    }
  };
  const bool whole = each_unit(plan.units.size(), threads, control, [&] {
    return [&, rows = HeadRows(source, plan)](
               std::size_t head, const std::function<bool()>& stopped) mutable -> HandOver {
      auto hand_over = look(plan.units[head], rows, stopped);
      if (!hand_over) return {};
      return [&in_order, head, hand_over] { in_order(head, hand_over); };
    };
  });
  for (const auto& [head, hand_over] : waiting) hand_over();  // some before them were stopped
  return whole;
}

}  // namespace kvreplay::attention
