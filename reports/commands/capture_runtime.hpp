// What computes a capture: the CPU or a GPU, as --device and what the machine has say.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "capture/capture.hpp"
#include "capture/cpu_model.hpp"
#include "capture/model.hpp"
#include "reports/commands/command.hpp"

namespace kvreplay::commands {

/// --device, --device-memory and --threads.
void add_runtime_options(po::options_description& options);

struct CaptureRuntime {
  std::string device;                  ///< for people: "CPU, 2 threads"
  std::string needs;                   ///< of memory, likewise
  std::optional<CpuOptions> cpu = {};  ///< where the CPU computes
  /// Bytes of the host's memory for the run if it were recorded so.
  std::function<std::uint64_t(const TraceInfo&)> host_memory;
  std::function<std::unique_ptr<Model>()> load;
};

/// For a run of `planned.tokens` tokens of a model, recorded as planned unless `record`
/// is false; `source`, `config` and `request` outlive the result. Throws std::invalid_argument
/// where there is no such device or it has too little memory.
CaptureRuntime choose_runtime(const po::variables_map& options, const TensorSource& source,
                              const ModelConfig& config, const CaptureRequest& request,
                              const TraceInfo& planned, bool record);

}  // namespace kvreplay::commands
