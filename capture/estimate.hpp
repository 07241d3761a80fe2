// What a capture on the CPU will take, before it begins: sizes are planned, times are estimates
// from what this machine does in a tenth of a second.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "capture/capture.hpp"
#include "capture/cpu_model.hpp"

namespace kvreplay {

/// What a machine does in a second, on all threads of a run together unless said otherwise.
struct MachineSpeed {
  double product_flops = 0;       ///< of products with weights, many tokens at a time
  double weight_bytes = 0;        ///< read for products with one token
  double attention_entries = 0;   ///< of rows, computed 64 at a time
  double decoding_entries = 0;    ///< of rows, computed one at a time from keys in a cache
  double dequantised_values = 0;  ///< into memory that is touched for the first time
  double hashed_bytes = 0;        ///< by one thread
  double written_bytes = 0;       ///< by one thread, into the system's memory
  double disk_bytes = 0;          ///< until they are safe on the disk
  /// Entries of rows that become what the trace stores, by encoding.
  std::array<double, 4> recorded_entries{};

  double& recorded(Encoding encoding) {
    return recorded_entries.at(static_cast<std::size_t>(encoding));
  }
  double recorded(Encoding encoding) const {
    return recorded_entries.at(static_cast<std::size_t>(encoding));
  }
};

/// Times small pieces of the work itself, about 0.1 s in all: the program's own products, attention
/// and encoders on sizes like those of the run, and a file of 8 MB in `folder` where it is given.
MachineSpeed measure_speed(const TensorSource& source, const ModelConfig& config,
                           const CpuOptions& options, std::uint32_t tokens,
                           const std::optional<std::filesystem::path>& folder);

/// Seconds from the loading of the weights to the synced trace, of which `planned` tells the
/// tokens, also where nothing is recorded. Files that must come from a disk first take longer.
double capture_seconds(const MachineSpeed& speed, const TensorSource& source,
                       const ModelConfig& config, const CpuOptions& options,
                       const CaptureRequest& request, const TraceInfo& planned, bool record);

/// What any run takes: the program, and logits on the host.
std::uint64_t base_memory(const ModelConfig& config, const CaptureRequest& request);

/// Memory that a run takes beside the files that the system keeps in memory.
std::uint64_t capture_memory(const TensorSource& source, const ModelConfig& config,
                             const CpuOptions& options, const CaptureRequest& request,
                             const TraceInfo& planned, bool record);

}  // namespace kvreplay
