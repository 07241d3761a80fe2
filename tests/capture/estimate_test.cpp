// Estimates against what they are of.
#include "capture/estimate.hpp"

#include <sys/resource.h>

#include <catch2/catch.hpp>

#include "capture/gguf_config.hpp"
#include "gguf_builder.hpp"
#include "paths.hpp"
#include "tiny_model.hpp"
#include "traces/trace_writer.hpp"

namespace kvreplay::testing {
namespace {

TinyModel tiny() {
  TinyModel model;
  model.randomise(3);
  return model;
}

struct Planned {
  explicit Planned(const std::filesystem::path& path)
      : file(write_file(path, tiny().gguf().bytes())), config(read_gguf_config(file)) {}

  TraceInfo of(std::uint32_t prompt, std::uint32_t generate) {
    request.prompt.assign(prompt, 1);
    request.generate = generate;
    return plan_trace(config, request, {0, 1}, {0, 1, 2}, Encoding::fp16);
  }
  double seconds(const MachineSpeed& speed, const TraceInfo& info, bool record = true) const {
    return capture_seconds(speed, file, config, cpu, request, info, record);
  }

  GgufFile file;
  ModelConfig config;
  CpuOptions cpu{.threads = 2};
  CaptureRequest request;
};

}  // namespace

TEST_CASE("a machine's speed is measured in all that a run does") {
  const TemporaryFolder folder;
  Planned planned(folder / "m.gguf");
  const auto speed = measure_speed(planned.file, planned.config, planned.cpu, 500, folder.path());
  for (const double rate :
       {speed.product_flops, speed.weight_bytes, speed.attention_entries, speed.decoding_entries,
        speed.dequantised_values, speed.hashed_bytes, speed.written_bytes, speed.disk_bytes,
        speed.recorded(Encoding::fp16), speed.recorded(Encoding::fp32),
        speed.recorded(Encoding::u16log), speed.recorded(Encoding::factors)}) {
    CHECK(rate > 1e4);
    CHECK(rate < 1e15);
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  // Where nothing can be written, the disk is not known, and that is all.
  const auto unknown =
      measure_speed(planned.file, planned.config, planned.cpu, 1, folder / "missing");
  CHECK(unknown.disk_bytes == 0);
  CHECK(unknown.product_flops > 0);
}

TEST_CASE("measuring takes no more memory than the run itself") {
  const TemporaryFolder folder;
  Planned planned(folder / "m.gguf");
  const auto peak = [] {
    struct rusage usage {};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  };
  const auto before = peak();
  const TraceInfo info = planned.of(500, 0);
  measure_speed(planned.file, planned.config, planned.cpu, info.tokens, folder.path());
  CHECK(peak() - before <
        capture_memory(planned.file, planned.config, planned.cpu, planned.request, info, true));
}

TEST_CASE("the time of a run is the sum of its parts") {
  const TemporaryFolder folder;
  Planned planned(folder / "m.gguf");
  // The model: see TinyModel. Each rate by itself, so that its part stands alone.
  const TinyModel model;
  const double e = model.embedding;
  const double d = model.head_size;
  const double weights = model.layers * (e * (model.heads + 2.0 * model.kv_heads) * d +
                                         model.heads * d * e + 3.0 * e * model.feed_forward);
  const double head = e * model.vocabulary;
  const TraceInfo info = planned.of(100, 28);
  {
    MachineSpeed speed;
    speed.product_flops = 1e6;
    CHECK(planned.seconds(speed, info) == Approx(2 * weights * 100 / 1e6));
    planned.request.log_probabilities = true;
    CHECK(planned.seconds(speed, info) == Approx(2 * (weights + head) * 100 / 1e6));
    planned.request.log_probabilities = false;
  }
  {
    MachineSpeed speed;
    speed.attention_entries = 1e6;
    // Rows are computed up to the next multiple of 64 keys: 64 of 64, then 36 of 128.
    CHECK(planned.seconds(speed, info) ==
          Approx(model.layers * model.heads * (64.0 * 64 + 36 * 128) / 1e6));
    speed = {};
    speed.decoding_entries = 1e6;
    CHECK(planned.seconds(speed, info) == Approx(model.layers * model.heads * 28.0 * 128 / 1e6));
  }
  {
    MachineSpeed speed;
    speed.weight_bytes = 1e6;
    const double cache = 2.0 * model.layers * model.kv_heads * d * 4;
    CHECK(planned.seconds(speed, info) ==
          Approx((28 * (weights + head) * 4 + cache * 28 * 114) / 1e6));
  }
  {
    MachineSpeed speed;
    speed.recorded(Encoding::fp16) = 1e6;
    CHECK(planned.seconds(speed, info) == Approx(6 * (64.0 * 64 + 64 * 128) / 1e6));
    CHECK(planned.seconds(speed, info, false) == 0);
    TraceInfo sampled = info;
    sampled.sampling = {100, 7};  // 100, 107, 114, 121
    CHECK(planned.seconds(speed, sampled) == Approx(6 * 4 * 128 / 1e6));
  }
  {
    MachineSpeed speed;
    speed.disk_bytes = 1e6;
    CHECK(planned.seconds(speed, info) ==
          Approx(static_cast<double>(planned_file_bytes(info)) / 1e6));
    speed.product_flops = 1;  // the disk works meanwhile
    CHECK(planned.seconds(speed, info) == Approx(2 * weights * 100));
  }
}

TEST_CASE("memory that a run takes grows with what it does") {
  const TemporaryFolder folder;
  Planned planned(folder / "m.gguf");
  const TraceInfo info = planned.of(100, 28);
  const auto memory = [&](const TraceInfo& of, bool record) {
    return capture_memory(planned.file, planned.config, planned.cpu, planned.request, of, record);
  };
  CHECK(memory(info, true) - memory(info, false) == Recorder::buffer_bytes(info));
  const auto before = memory(info, false);
  const TraceInfo longer = planned.of(100, 128);
  CHECK(memory(longer, false) - before ==
        CpuModel::working_bytes(planned.config, planned.cpu, 228) -
            CpuModel::working_bytes(planned.config, planned.cpu, 128));
  planned.request.log_probabilities = true;
  CHECK(memory(longer, false) > before);
}

TEST_CASE("a planned file is as large as the one that comes, but for its metadata") {
  const auto encoding =
      GENERATE(Encoding::fp16, Encoding::fp32, Encoding::u16log, Encoding::factors);
  const TemporaryFolder folder;
  Planned planned(folder / "m.gguf");
  TraceInfo info = planned.of(300, 0);
  info.encoding = encoding;
  info.values = info.norms = GENERATE(false, true);
  info.sampling = GENERATE(RowSampling{}, RowSampling{10, 7});
  std::vector<std::uint32_t> tokens(300);
  const std::vector<std::string> pieces(300, "sixteen letters.");
  {
    Recorder recorder(folder / "t.h5", info, false);
    CpuModel run(planned.file, planned.config, planned.cpu);
    run.start(300, &recorder);
    for (std::uint32_t at = 0; at < 300; at += 100)
      run.forward(std::span(tokens).subspan(at, 100), {});
    recorder.rows_whole(300);
    recorder.finish(300, tokens, pieces);
  }
  const auto size = std::filesystem::file_size(folder / "t.h5");
  const auto plan = planned_file_bytes(info);
  INFO(name(encoding) << " " << plan << " planned, " << size);
  CHECK(size <= plan);
  // Half a page each is given away before a dataset and behind its header, more where it is small.
  CHECK(plan - size < (16 + 8 * info.layers.size()) * 4096);
}

}  // namespace kvreplay::testing
