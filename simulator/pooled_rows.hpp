// Reading the rows of units: in slabs, and as the one row that the heads of a unit share.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "simulator/plan.hpp"
#include "traces/row_source.hpp"

namespace kvreplay {

constexpr std::uint64_t kSlabValues =
    (std::uint64_t{4} << 20) / sizeof(float);  ///< read at once, over all heads of a unit

/// The longest range from `first` whose rows hold at most `values` values, but at least one row.
RowRange rows_from(std::uint32_t first, std::uint32_t end, std::uint64_t values);

/// Throws InputError, which names row i of a head of `unit` as no probabilities.
[[noreturn]] void refuse_row(const ReplayPlan& plan, const UnitPlan& unit, std::size_t head,
                             std::uint32_t i);

/// The sum of row i of a head of `unit`. Throws InputError, which names the row, where it is no
/// probabilities.
double sum_of_row(const ReplayPlan& plan, const UnitPlan& unit, std::size_t head, std::uint32_t i,
                  std::span<const float> weights);

/// Adds the weights of one head to `pooled`, which starts at 0, and, after all heads, ends it.
void pool_row(Pooling pooling, std::span<const double> weights, std::span<double> pooled);
void finish_pool(Pooling pooling, std::size_t heads, std::span<double> pooled);

/// Calls rows_done(count) as rows are done, and asks stopped() now and then.
struct Watch {
  std::function<bool()> stopped;
  std::function<void(std::uint64_t)> rows_done;
};

/// The raw rows of a unit, pooled over its heads. Keeps scratch space; one per thread.
class PooledRows {
 public:
  /// Both outlive the object.
  PooledRows(const RowSource& source, const ReplayPlan& plan);

  /// Calls use(i, row) for the rows 0 .. rows - 1. False: stopped. Throws InputError for a row that
  /// is no probabilities.
  bool each(const UnitPlan& unit, std::uint32_t rows, const Watch& watch,
            const std::function<void(std::uint32_t, std::span<const double>)>& use);

 private:
  const RowSource& source_;
  const ReplayPlan& plan_;
  std::vector<std::vector<float>> scratch_;  // by head
  std::vector<double> weights_;
  std::vector<double> pooled_;
};

/// Runs `work` on as many threads at once, one of them the caller's; the first exception is thrown.
/// `failed` is set as soon as one throws: the others need not go on.
void on_threads(std::size_t threads, std::atomic<bool>& failed, const std::function<void()>& work);

}  // namespace kvreplay
