// What a capture will take of disk, memory and time, said and checked before it begins.
#pragma once

#include <string>
#include <vector>

#include "capture/estimate.hpp"
#include "reports/commands/capture_runtime.hpp"
#include "traces/disk_space.hpp"

namespace kvreplay::commands {

/// A run that is about to begin. What it refers to outlives it.
struct PlannedCapture {
  const TensorSource& source;
  const ModelConfig& config;
  const CaptureRuntime& runtime;
  const CaptureRequest& request;
  TraceInfo info;                            ///< also of a run that is not recorded
  std::optional<std::filesystem::path> out;  ///< of the trace; none: not recorded, or not yet known
  bool record = true;
  std::vector<PlannedFile> others = {};  ///< that it writes beside the trace
};

class CaptureEstimates {
 public:
  /// Measures the machine, which takes about 0.1 s; of a GPU nothing is known.
  explicit CaptureEstimates(const PlannedCapture& plan);

  /// Of the run as planned: "about 3.1 s, 322 MB on disk".
  std::string line() const;
  /// Of the run in every encoding, that of the plan marked, and what is free; lines end in a line
  /// feed.
  std::string table() const;

 private:
  std::string time_of(const TraceInfo& info) const;
  std::string memory_of(const TraceInfo& info) const;
  const PlannedCapture& plan_;
  std::optional<MachineSpeed> speed_;
};

/// Throws OutputError where the files have no room, naming an encoding that would have, and
/// std::invalid_argument where the run needs more memory than there is, unless `beyond_memory`.
void check_machine(const PlannedCapture& plan, bool beyond_memory);

}  // namespace kvreplay::commands
