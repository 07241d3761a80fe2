// Times captures on the device stage by stage, beside the copies that bound them: a random model of
// SmolLM2-135M's shape with fewer layers, prefilled in chunks and decoded token by token.
//
//   time_capture [FOLDER]      where traces are written (default: the system's temporary one); ends
//                              with 77 where there is no GPU
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <mutex>

#include "../capture/tiny_model.hpp"
#include "capture/capture.hpp"
#include "capture/cuda/cuda_device.hpp"
#include "capture/cuda/device_model.hpp"
#include "capture/gguf_config.hpp"

namespace kvreplay {
namespace {

using Clock = std::chrono::steady_clock;
using cuda::check;
using cuda::Event;

constexpr std::uint32_t kPrompt = 4096;
constexpr std::uint32_t kDecoded = 64;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// What a stage took, on the device where it works there.
struct Stage {
  std::vector<std::pair<Event, Event>> events;
  double milliseconds = 0;
  double bytes = 0;
};

using Stages = std::map<std::string, Stage>;

template <class Kernel>
struct NameOf {
  static constexpr const char* kName = "norms, rotation, gates";
};
template <std::uint32_t kTileRows, std::uint32_t kHead>
struct NameOf<cuda::Attend<kTileRows, kHead>> {
  static constexpr const char* kName = "attention";
};
template <>
struct NameOf<cuda::MergeAttention> {
  static constexpr const char* kName = "attention";
};
template <std::uint32_t kTileRows, class Code>
struct NameOf<cuda::RecordRows<kTileRows, Code>> {
  static constexpr const char* kName = "recording kernels";
};
template <>
struct NameOf<cuda::SumRows> {
  static constexpr const char* kName = "recording kernels";
};
template <>
struct NameOf<cuda::Gather> {
  static constexpr const char* kName = "recording kernels";
};

/// The device with an event before and after all that it does.
class TimedDevice : public cuda::CudaDevice {
 public:
  explicit TimedDevice(Stages& stages) : stages_(stages) {}

  template <class Kernel>
  void launch(const Kernel& kernel) {
    time(NameOf<Kernel>::kName, computing(), [&] { CudaDevice::launch(kernel); });
  }
  void multiply(const Matrix& weight, Activations x, std::uint32_t tokens, Activations y,
                Store store) {
    time("products", computing(), [&] { CudaDevice::multiply(weight, x, tokens, y, store); });
  }
  Download download(std::byte* to, const std::byte* from, std::size_t bytes) {
    const Event computed = Event::make();
    check(cudaEventRecord(computed.get(), computing()), "recording an event");
    check(cudaStreamWaitEvent(copying(), computed.get()), "waiting for an event");
    stages_["copies to the host"].bytes += static_cast<double>(bytes);
    time("copies to the host", copying(), [&] {
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, copying()), "copying");
    });
    Event copied = Event::make();
    check(cudaEventRecord(copied.get(), copying()), "recording an event");
    return Download(std::move(copied));
  }

 private:
  template <class Work>
  void time(const char* stage, cuda::Stream stream, const Work& work) {
    Event begin = Event::make(true);
    Event end = Event::make(true);
    check(cudaEventRecord(begin.get(), stream), "recording an event");
    work();
    check(cudaEventRecord(end.get(), stream), "recording an event");
    stages_[stage].events.emplace_back(std::move(begin), std::move(end));
  }
  Stages& stages_;
};

/// A recorder whose writing is timed: from when rows have arrived until their buffer is free.
class TimedSink final : public AttentionSink {
 public:
  TimedSink(Recorder& recorder, Stage& writing) : recorder_(recorder), writing_(writing) {}
  const TraceInfo& plan() const override { return recorder_.plan(); }
  bool wants(std::uint32_t layer, std::uint32_t head) const override {
    return recorder_.wants(layer, head);
  }
  void rows(std::uint32_t layer, std::uint32_t head, const AttentionBlock& block,
            std::span<const float> probabilities, std::span<const float> lse) override {
    recorder_.rows(layer, head, block, probabilities, lse);
  }
  void stored(std::unique_ptr<StoredBlock> block) override {
    recorder_.stored(std::make_unique<Timed>(std::move(block), writing_));
  }

 private:
  class Timed final : public StoredBlock {
   public:
    Timed(std::unique_ptr<StoredBlock> block, Stage& writing)
        : block_(std::move(block)), writing_(writing) {}
    ~Timed() override { writing_.milliseconds += milliseconds_since(arrived_); }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;
    std::span<const StoredRows> wait() override {
      const auto rows = block_->wait();
      arrived_ = Clock::now();
      for (const StoredRows& stored : rows)
        writing_.bytes += static_cast<double>(stored.bytes.size() + stored.lse.size_bytes() +
                                              stored.shared.keys.size_bytes() +
                                              stored.shared.values.size_bytes());
      return rows;
    }

   private:
    std::unique_ptr<StoredBlock> block_;
    Stage& writing_;  // of the writer's thread alone
    Clock::time_point arrived_ = Clock::now();
  };
  Recorder& recorder_;
  Stage& writing_;
};

std::vector<std::uint32_t> some_ids(std::uint32_t count, std::uint32_t vocabulary) {
  std::vector<std::uint32_t> ids;
  for (std::uint32_t i = 0; i < count; ++i) ids.push_back((i * 7919 + 13) % vocabulary);
  return ids;
}

void print(const char* what, const Stage& stage, double copy_rate) {
  std::printf("  %-28s %10.1f ms", what, stage.milliseconds);
  if (stage.bytes > 0) {
    const double rate = stage.bytes / stage.milliseconds / 1e6;
    std::printf(" %9.2f GB/s", rate);
    if (copy_rate > 0) std::printf(" %7.1f %% of copying alone", 100 * rate / copy_rate);
  }
  std::printf("\n");
  std::fflush(stdout);
}

/// GB/s of one copy of 256 MiB to pinned memory.
double host_copy_rate(cuda::CudaDevice& device) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const auto from = device.allocate<std::byte>(kBytes);
  const auto to = device.host_memory(kBytes);
  device.download(to.data(), from.data(), kBytes).wait();
  const auto start = Clock::now();
  device.download(to.data(), from.data(), kBytes).wait();
  return kBytes / milliseconds_since(start) / 1e6;
}

/// Both phases; with a recorder's rows whole at the end.
void run(Model& model, AttentionSink* sink, double& prefill, double& decode) {
  const auto ids = some_ids(kPrompt + kDecoded, model.config().vocabulary);
  std::vector<float> logits(model.config().vocabulary);
  model.start(kPrompt + kDecoded, sink);
  auto start = Clock::now();
  while (model.position() < kPrompt)
    model.forward(std::span(ids).subspan(model.position(),
                                         std::min(model.chunk(), kPrompt - model.position())),
                  {});
  prefill = milliseconds_since(start);
  start = Clock::now();
  while (model.position() < kPrompt + kDecoded) {
    model.forward(std::span(ids).subspan(model.position(), 1), {});
    model.logits(0, 1, logits);
  }
  decode = milliseconds_since(start);
}

void print_rates(const char* what, double prefill, double decode) {
  std::printf("%s: prefill %.0f tokens/s, decoding %.1f tokens/s\n", what, 1e3 * kPrompt / prefill,
              1e3 * kDecoded / decode);
}

void time_encoding(const GgufFile& file, const std::filesystem::path& folder, Encoding encoding,
                   double copy_rate) {
  const ModelConfig config = read_gguf_config(file);
  CaptureRequest request;
  request.prompt = some_ids(kPrompt, config.vocabulary);
  request.generate = kDecoded;
  std::vector<std::uint32_t> layers;
  std::vector<std::uint32_t> heads;
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) layers.push_back(layer);
  for (std::uint32_t head = 0; head < config.heads; ++head) heads.push_back(head);

  Stages stages;
  Stage writing;
  const auto device = std::make_shared<TimedDevice>(stages);
  cuda::DeviceModel<TimedDevice> model(file, config, device, device->free_memory() / 10 * 9);
  double prefill = 0;
  double decode = 0;
  const auto path = folder / "time_capture.h5";
  const auto start = Clock::now();
  {
    Recorder recorder(path, plan_trace(config, request, layers, heads, encoding), true);
    TimedSink sink(recorder, writing);
    run(model, &sink, prefill, decode);
    recorder.rows_whole(kPrompt + kDecoded);
    recorder.drain();
  }
  const double whole = milliseconds_since(start);
  std::filesystem::remove(path.string() + ".partial");
  const std::string title = "capture as " + std::string(name(encoding));
  print_rates(title.c_str(), prefill, decode);
  for (auto& [stage, found] : stages) {
    for (const auto& [begin, end] : found.events) {
      float time = 0;
      check(cudaEventElapsedTime(&time, begin.get(), end.get()), "reading a time");
      found.milliseconds += time;
    }
    if (stage == "recording kernels") found.bytes = writing.bytes;
    print(stage.c_str(), found, stage == "copies to the host" ? copy_rate : 0);
  }
  print("writing (to the system)", writing, 0);
  print("all, beginning to drained", {{}, whole, writing.bytes}, 0);
}

int run(const std::filesystem::path& folder) {
  const std::string none = cuda::why_no_runtime();
  if (!none.empty()) {
    std::cout << "There is no GPU here (" << none << "): nothing was timed." << std::endl;
    return 77;
  }
  testing::TinyModel tiny;
  tiny.layers = 12;
  tiny.embedding = 576;
  tiny.heads = 9;
  tiny.kv_heads = 3;
  tiny.head_size = 64;
  tiny.feed_forward = 1536;
  tiny.vocabulary = 1000;
  tiny.rope_dimensions = 64;
  tiny.theta = 100000;
  tiny.randomise(1);
  const auto path = folder / "time_capture.gguf";
  testing::write_file(path, tiny.gguf().bytes());
  const GgufFile file(path);
  std::filesystem::remove(path);  // stays mapped
  const ModelConfig config = read_gguf_config(file);

  const auto device = std::make_shared<cuda::CudaDevice>();
  const double copy_rate = host_copy_rate(*device);
  std::printf(
      "%s; %u tokens prefilled, %u decoded, %u layers of %u heads; copying to pinned memory "
      "alone: %.1f GB/s\n",
      device->name().c_str(), kPrompt, kDecoded, config.layers, config.heads, copy_rate);
  {
    cuda::DeviceModel<cuda::CudaDevice> model(file, config, device, device->free_memory() / 10 * 9);
    double prefill = 0;
    double decode = 0;
    for (int i = 0; i < 2; ++i) run(model, nullptr, prefill, decode);  // the first warms up
    print_rates("unrecorded", prefill, decode);
  }
  for (const Encoding encoding : {Encoding::fp16, Encoding::u16log, Encoding::factors})
    time_encoding(file, folder, encoding, copy_rate);
  return 0;
}

}  // namespace
}  // namespace kvreplay

int main(int argc, char** argv) {
  try {
    return kvreplay::run(argc > 1 ? argv[1] : std::filesystem::temp_directory_path().string());
  } catch (const std::exception& error) {
    std::cerr << "time_capture: " << error.what() << std::endl;
    return 1;
  }
}
