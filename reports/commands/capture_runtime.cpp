#include "reports/commands/capture_runtime.hpp"

#include <tbb/info.h>

#include <stdexcept>

#include "capture/estimate.hpp"
#include "reports/commands/byte_size.hpp"
#include "reports/commands/whole_number.hpp"
#include "reports/text_table.hpp"
#include "traces/quoted.hpp"
#include "traces/size_text.hpp"

#ifdef KVREPLAY_CUDA
#include "capture/cuda/cuda_device.hpp"
#include "capture/cuda/device_model.hpp"
#endif

namespace kvreplay::commands {
namespace {

constexpr std::uint32_t kMostThreads = 1024;

#ifdef KVREPLAY_CUDA

std::string why_no_cuda() {
  return cuda::why_no_runtime();
}

/// Left to what CUDA and cuBLAS take for themselves.
std::uint64_t most_of(std::uint64_t free) {
  return free / 10 * 9;
}

CaptureRuntime cuda_runtime(const po::variables_map& options, const TensorSource& source,
                            const ModelConfig& config, const CaptureRequest& request,
                            const TraceInfo& planned, bool record) {
  auto device = std::make_shared<cuda::CudaDevice>();
  const std::uint64_t limit = options.count("device-memory") > 0
                                  ? options["device-memory"].as<std::uint64_t>()
                                  : most_of(device->free_memory());
  const std::uint64_t weights = ModelWeights::values(source) * sizeof(float);
  const auto planned_for = [&config, weights, limit, record](const TraceInfo& info) {
    return cuda::plan_memory(config, weights, info.tokens, record ? &info : nullptr, limit);
  };
  const cuda::MemoryPlan plan = planned_for(planned);
  CaptureRuntime runtime;
  runtime.device = device->name() + " (CUDA)";
  runtime.needs = size_text(plan.on_device()) + " of device memory, " + size_text(weights) +
                  " of them weights as fp32; " + size_text(weights + plan.on_host) + " of memory";
  runtime.host_memory = [planned_for, weights,
                         base = base_memory(config, request)](const TraceInfo& info) {
    return base + weights + planned_for(info).on_host;
  };
  runtime.load = [device, limit, &source, &config] {
    return std::make_unique<cuda::DeviceModel<cuda::CudaDevice>>(source, config, device, limit);
  };
  return runtime;
}

#else

std::string why_no_cuda() {
  return "this kvreplay was built without CUDA";
}

CaptureRuntime cuda_runtime(const po::variables_map&, const TensorSource&, const ModelConfig&,
                            const CaptureRequest&, const TraceInfo&, bool) {
  throw std::logic_error(why_no_cuda());
}

#endif

CaptureRuntime cpu_runtime(const po::variables_map& options, const TensorSource& source,
                           const ModelConfig& config, const CaptureRequest& request,
                           const TraceInfo& planned, bool record) {
  CpuOptions cpu;
  cpu.threads = options["threads"].as<std::uint32_t>();
  const std::uint64_t weights = ModelWeights::values(source) * sizeof(float);
  CaptureRuntime runtime;
  runtime.cpu = cpu;
  runtime.host_memory = [cpu, record, &source, &config, &request](const TraceInfo& info) {
    return capture_memory(source, config, cpu, request, info, record);
  };
  runtime.device = "CPU, " + counted(cpu.threads, "thread");
  runtime.needs = size_text(runtime.host_memory(planned)) + " of memory, " + size_text(weights) +
                  " of them weights as fp32";
  runtime.load = [cpu, &source, &config] {
    return std::make_unique<CpuModel>(source, config, cpu);
  };
  return runtime;
}

}  // namespace

void add_runtime_options(po::options_description& options) {
  const auto threads = static_cast<std::uint32_t>(tbb::info::default_concurrency());
  auto add = options.add_options();
  add("device", po::value<std::string>()->default_value("auto")->value_name("D"),
      "what computes: cpu, cuda (the first GPU that CUDA shows), or auto: cuda where there is one");
  add("device-memory", byte_size()->value_name("SIZE"),
      "most of a GPU's memory to use, e.g. 8G (default: 9 tenths of what is free), beside what "
      "CUDA "
      "takes for itself; tokens at a time and buffers for rows follow from it");
  add("threads",
      whole_number<std::uint32_t>(1, kMostThreads)->default_value(threads)->value_name("N"),
      "threads that compute");
}

CaptureRuntime choose_runtime(const po::variables_map& options, const TensorSource& source,
                              const ModelConfig& config, const CaptureRequest& request,
                              const TraceInfo& planned, bool record) {
  const std::string device = options["device"].as<std::string>();
  if (device != "auto" && device != "cpu" && device != "cuda")
    throw std::invalid_argument("--device " + in_quotes(device) + " is none of cpu, cuda and auto");
  if (device == "cpu") return cpu_runtime(options, source, config, request, planned, record);
  std::string none = why_no_cuda();
  if (device == "cuda" && !none.empty()) throw std::invalid_argument("--device cuda: " + none);
  if (none.empty()) {
    try {
      return cuda_runtime(options, source, config, request, planned, record);
    } catch (const std::invalid_argument& error) {  // too small for the run
      if (device == "cuda") throw;
      none = error.what();
    }
  }
  CaptureRuntime runtime = cpu_runtime(options, source, config, request, planned, record);
#ifdef KVREPLAY_CUDA
  runtime.device += "; no GPU is used: " + none;
#endif
  return runtime;
}

}  // namespace kvreplay::commands
