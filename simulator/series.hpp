// The stepwise metrics along the steps: all heads together, in bins of steps.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "simulator/metrics.hpp"
#include "simulator/plan.hpp"
#include "simulator/samples.hpp"

namespace kvreplay {

struct ReplayOutcome;

/// The steps first .. last - 1 that are summed up together.
struct Bin {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};
/// Bin number `bin` of the plan's: as even as they come.
Bin bin_at(const ReplayPlan& plan, std::uint32_t bin);
/// The number of the bin that a step falls into.
std::uint32_t bin_of(const ReplayPlan& plan, std::uint32_t step);

/// Gathers bins of units that run side by side. Sums are added unit by unit in the plan's order, so
/// they are the same however the units ran.
class Series {
 public:
  explicit Series(const ReplayPlan& plan);

  /// Takes what a cell measured in a bin of a unit and empties it.
  void add(std::size_t unit, std::size_t cell, std::uint32_t bin, std::span<Samples> samples);
  /// No more comes of this unit.
  void done(std::size_t unit);
  /// By cell, bin and stepwise metric; whatever has come.
  std::vector<Summary> finish();

 private:
  struct Open {
    std::vector<Sums> sums;
    bool done = false;
  };
  void fold(const Open& open);

  const ReplayPlan& plan_;
  std::size_t metrics_;
  std::mutex mutex_;
  std::vector<Samples> total_;
  std::map<std::size_t, Open> open_;  // by unit
  std::size_t next_ = 0;              // the first unit that is not in the sums yet
};

/// Bytes that the series of a plan holds at most, roughly.
std::uint64_t series_bytes(const ReplayPlan& plan, unsigned threads);

/// The series of one trace after another as tidy CSV.
class SeriesFile {
 public:
  SeriesFile();
  void add(const ReplayPlan& plan, const ReplayOutcome& outcome);
  const std::string& lines() const { return lines_; }

 private:
  std::string lines_;
};

}  // namespace kvreplay
