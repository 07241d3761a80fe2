// What the units of a plan measured, gathered as they end, in any order.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "simulator/metrics.hpp"
#include "simulator/replay.hpp"
#include "simulator/samples.hpp"

namespace kvreplay {

/// Only heads and groups have rows of their own in results: at layer scope the layers do.
bool details_units(const ReplayPlan& plan);

/// Sums are added in the plan's order, units within their layer and then layers; counts may come as
/// they like.
class Collector {
 public:
  explicit Collector(const ReplayPlan& plan);

  /// What a cell measured on a unit.
  struct Measured {
    std::span<const Samples> samples;
    std::uint64_t zero_mass_rows = 0;
  };
  /// `cells` are the plan's.
  void add(std::size_t unit, std::span<const Measured> cells);
  /// `series` is left out.
  ReplayOutcome finish();

 private:
  struct Layer {
    std::vector<std::vector<Sums>> units;  // of those done, until the layer closes
    std::size_t units_left = 0;
    std::vector<Samples> samples;  // of the units done so far, until the layer closes
    std::vector<Sums> sums;        // once it has closed; empty where no unit was done
  };

  std::vector<Samples> new_samples() const;
  void close(std::size_t position);

  const ReplayPlan& plan_;
  Metrics metrics_;
  std::mutex mutex_;
  ReplayOutcome outcome_;
  std::vector<Layer> layers_;
  std::vector<std::size_t> first_units_;  // by layer
  std::vector<Samples> overall_;
};

}  // namespace kvreplay
