#include "simulator/pooled_rows.hpp"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>

#include "simulator/row_sums.hpp"
#include "traces/errors.hpp"

namespace kvreplay {

RowRange rows_from(std::uint32_t first, std::uint32_t end, std::uint64_t values) {
  RowRange range{first, first + 1};
  while (range.last < end && RowRange{first, range.last + 1}.values() <= values) ++range.last;
  return range;
}

double sum_of_row(const ReplayPlan& plan, const UnitPlan& unit, std::size_t head, std::uint32_t i,
                  std::span<const float> weights) {
  const double sum = row_sum(weights);
  if (!(sum >= 0)) refuse_row(plan, unit, head, i);
  return sum;
}

void refuse_row(const ReplayPlan& plan, const UnitPlan& unit, std::size_t head, std::uint32_t i) {
  throw InputError(plan.trace + ": row " + std::to_string(i) + " of layer " +
                   std::to_string(unit.layer_names[head]) + ", head " +
                   std::to_string(unit.head_names[head]) +
                   " holds a weight that is negative or not finite; `kvreplay trace verify` "
                   "checks the whole file");
}

void pool_row(Pooling pooling, std::span<const double> weights, std::span<double> pooled) {
  double* const total = pooled.data();
  const double* const weight = weights.data();
  if (pooling == Pooling::max) {
    for (std::size_t at = 0; at < weights.size(); ++at) total[at] = std::max(total[at], weight[at]);
  } else {
    for (std::size_t at = 0; at < weights.size(); ++at) total[at] += weight[at];
  }
}

void finish_pool(Pooling pooling, std::size_t heads, std::span<double> pooled) {
  if (pooling != Pooling::mean || heads == 1) return;
  for (double& weight : pooled) weight /= static_cast<double>(heads);
}

PooledRows::PooledRows(const RowSource& source, const ReplayPlan& plan)
    : source_(source), plan_(plan), weights_(plan.tokens), pooled_(plan.tokens) {
  std::size_t heads = 0;
  for (const auto& unit : plan.units) heads = std::max(heads, unit.heads.size());
  scratch_.resize(heads);
}

bool PooledRows::each(const UnitPlan& unit, std::uint32_t rows, const Watch& watch,
                      const std::function<void(std::uint32_t, std::span<const double>)>& use) {
  const std::size_t heads = unit.heads.size();
  std::vector<std::span<const float>> slabs(heads);
  for (std::uint32_t next = 0; next < rows;) {
    if (watch.stopped()) return false;
    const RowRange slab = rows_from(next, rows, kSlabValues / heads);
    for (std::size_t head = 0; head < heads; ++head) {
      slabs[head] = source_.rows(unit.heads[head], slab, scratch_[head]);
    }
    for (std::uint32_t i = slab.first; i < slab.last; ++i) {
      const std::size_t offset = RowLayout::offset(i) - RowLayout::offset(slab.first);
      const std::span pooled(pooled_.data(), i + 1);
      std::fill(pooled.begin(), pooled.end(), 0.0);
      for (std::size_t head = 0; head < heads; ++head) {
        const auto row = slabs[head].subspan(offset, i + 1);
        sum_of_row(plan_, unit, head, i, row);
        copy_row(row, weights_.data());
        pool_row(plan_.pooling, std::span(weights_).first(i + 1), pooled);
      }
      finish_pool(plan_.pooling, heads, pooled);
      use(i, pooled);
    }
    next = slab.last;
    watch.rows_done(slab.size() * heads);
  }
  return true;
}

void on_threads(std::size_t threads, std::atomic<bool>& failed, const std::function<void()>& work) {
  const std::size_t used = std::max<std::size_t>(threads, 1);
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, used);
  tbb::task_arena arena(static_cast<int>(used));
  arena.execute([&] {
    tbb::parallel_for(
        std::size_t{0}, used,
        [&](std::size_t) {
          try {
            work();
          } catch (...) {
            failed = true;
            throw;
          }
        },
        tbb::simple_partitioner());
  });
}

}  // namespace kvreplay
