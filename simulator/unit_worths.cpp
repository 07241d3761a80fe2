#include "simulator/unit_worths.hpp"

#include <algorithm>

#include "simulator/pooled_rows.hpp"
#include "simulator/unit_vectors.hpp"
#include "traces/norm.hpp"

namespace kvreplay {
namespace {

/// Of the values that one head reads.
void read_value_norms(const RowSource& source, const ReplayPlan& plan, const UnitPlan& unit,
                      std::size_t head, std::vector<float>& norms) {
  const HeadSlot slot = unit.heads[head];
  const auto held = source.value_norms(slot);
  if (held.empty()) {
    take_norms(source.values(slot), source.info().head_size, norms);
  } else {
    norms.assign(held.begin(), held.end());
  }
  check_finite(norms, 1, "values", plan, unit, head);
}

}  // namespace

UnitWorths::UnitWorths(const RowSource& source, const ReplayPlan& plan, const Objective& objective)
    : source_(source), plan_(plan), objective_(objective), pooled_(plan.tokens) {}

bool UnitWorths::each(
    const UnitPlan& unit, const std::function<bool()>& stopped,
    const std::function<void(std::uint32_t, std::span<const double>, std::uint32_t)>& use) {
  const std::size_t heads = unit.heads.size();
  scratch_.resize(std::max(scratch_.size(), heads));
  norms_.resize(scratch_.size());
  worths_.resize(scratch_.size(), Worths(objective_, plan_.encoding));
  for (std::size_t head = 0; head < heads; ++head) {
    worths_[head].start();
    if (objective_.kind == Objective::Kind::value) {
      read_value_norms(source_, plan_, unit, head, norms_[head]);
    }
  }
  std::vector<std::span<const float>> slabs(heads);
  for (std::uint32_t next = 0; next < plan_.tokens;) {
    if (stopped()) return false;
    const RowRange slab = rows_from(next, plan_.tokens, kSlabValues / heads);
    for (std::size_t head = 0; head < heads; ++head) {
      slabs[head] = source_.rows(unit.heads[head], slab, scratch_[head]);
    }
    for (std::uint32_t i = slab.first; i < slab.last; ++i) {
      const std::size_t offset = RowLayout::offset(i) - RowLayout::offset(slab.first);
      const std::span pooled(pooled_.data(), i + std::size_t{1});
      std::fill(pooled.begin(), pooled.end(), 0.0);
      std::uint32_t samples = 0;
      for (std::size_t head = 0; head < heads; ++head) {
        const auto row = slabs[head].subspan(offset, i + std::size_t{1});
        const double sum = sum_of_row(plan_, unit, head, i, row);
        if (worths_[head].add(row, sum, norms_[head], pooled)) ++samples;
      }
      use(i, pooled, samples);
    }
    next = slab.last;
  }
  return true;
}

}  // namespace kvreplay
