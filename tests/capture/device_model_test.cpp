// The runtime for devices, run on the CPU by the kernels' own source, against the CPU runtime.
// device_test.cpp does the same on a GPU.
#include "capture/cuda/device_model.hpp"

#include <tbb/global_control.h>

#include <catch2/catch.hpp>
#include <future>

#include "cpu_device.hpp"
#include "device_model_suite.hpp"
#include "given_values.hpp"

namespace kvreplay::testing {
namespace {

using Catch::Matchers::Contains;
using CpuDeviceModel = cuda::DeviceModel<CpuDevice>;

std::shared_ptr<CpuDevice> make_device() {
  return std::make_shared<CpuDevice>();
}

/// The least memory that a run can do with.
std::uint64_t least_memory(const ModelFile& model, const TraceInfo& plan) {
  const std::uint64_t weights = ModelWeights::values(model.file) * sizeof(float);
  std::uint64_t enough = kNoLimit;
  for (std::uint64_t too_little = 0; enough - too_little > 1;) {
    const std::uint64_t middle = too_little + (enough - too_little) / 2;
    try {
      cuda::plan_memory(model.config, weights, plan.tokens, &plan, middle);
      enough = middle;
    } catch (const std::invalid_argument&) {
      too_little = middle;
    }
  }
  return enough;
}

/// Keeps what it is given.
class HoldingSink final : public AttentionSink {
 public:
  explicit HoldingSink(TraceInfo plan) : plan_(std::move(plan)) {}
  const TraceInfo& plan() const override { return plan_; }
  bool wants(std::uint32_t, std::uint32_t) const override { return true; }
  void rows(std::uint32_t, std::uint32_t, const AttentionBlock&, std::span<const float>,
            std::span<const float>) override {}
  void stored(std::unique_ptr<StoredBlock> block) override {
    const std::lock_guard lock(mutex_);
    if (refuses) throw OutputError("the disk is full");
    blocks_.push_back(std::move(block));
    ++count_;
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  /// The oldest of those held.
  std::unique_ptr<StoredBlock> next() {
    const std::lock_guard lock(mutex_);
    if (blocks_.empty()) return nullptr;
    auto block = std::move(blocks_.front());
    blocks_.erase(blocks_.begin());
    return block;
  }
  std::atomic<bool> refuses{false};

 private:
  TraceInfo plan_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StoredBlock>> blocks_;
  std::size_t count_ = 0;
};

}  // namespace

TEST_CASE("the device runtime agrees with the CPU's on awkward shapes") {
  runs_of_all_shapes_agree(make_device);
}

TEST_CASE("the device runtime agrees with the CPU's on random shapes") {
  runs_of_random_shapes_agree(make_device);
}

TEST_CASE("captures by the device runtime agree with the CPU's in all encodings") {
  captures_in_all_encodings_agree(make_device);
}

TEST_CASE("factors and values of chosen layers and heads agree with the CPU's") {
  captured_factors_agree(make_device);
}

TEST_CASE("captures of some rows agree with the CPU's") {
  sampled_captures_agree(make_device);
}

TEST_CASE("the device runtime agrees with the slow forward pass in double") {
  TinyModel tiny;
  tiny.randomise(7);
  const ModelFile model(tiny);
  const auto ids = ids_of(133, tiny.vocabulary);
  const ReferenceRun expected = reference_run(tiny, ids);
  CpuDeviceModel runtime(model.file, model.config, make_device(), kNoLimit);
  const RunOfModel found = run_of(runtime, ids, 130);
  const auto as_floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  CHECK(largest_difference(found.rows.values(), as_floats(expected.rows)) < 5e-6);
  CHECK(largest_difference(found.rows.lse(), as_floats(expected.lse)) < 2e-5);
  CHECK(largest_difference(found.logits, as_floats(expected.logits)) < 5e-5);
}

TEST_CASE("stories260K on the device runtime agrees with the independent implementation") {
  const auto folder = shared_or_skip("data/stories260K");
  if (folder.empty()) return;
  const auto given = folder / "given.h5";
  const auto ids = read_dataset<std::uint32_t>(given, "tokens");
  const GgufFile file(folder / "stories260K.gguf");
  CpuDeviceModel runtime(file, read_gguf_config(file), make_device(), kNoLimit);
  const RunOfModel found = run_of(runtime, ids, static_cast<std::uint32_t>(ids.size()) - 5);
  CHECK(largest_difference(found.rows.values(), read_dataset<float>(given, "attention")) < 2e-5);
  CHECK(largest_difference(std::span(found.logits).last(512),
                           read_dataset<float>(given, "logits_last")) < 1e-4);
}

TEST_CASE(
    "a run takes no more memory than was planned, and any that suffices gives the same rows") {
  const TinyModel tiny = model_of_shape(6, 2, 16);
  const ModelFile model(tiny);
  const auto ids = ids_of(150, tiny.vocabulary);
  const std::uint64_t least = least_memory(model, plan_of_all(model.config, 150));
  std::vector<std::uint32_t> chunks;
  std::vector<float> rows;
  for (const std::uint64_t limit : {kNoLimit, least * 3 / 2, least + 40'000, least}) {
    const auto device = make_device();
    CpuDeviceModel runtime(model.file, model.config, device, limit);
    const RunOfModel found = run_of(runtime, ids, 140);
    CHECK(device->bytes_on_device() <= runtime.memory().on_device());
    CHECK(device->bytes_on_device() > runtime.memory().on_device() * 9 / 10);
    CHECK(runtime.memory().on_device() <= limit);
    CHECK(device->bytes_on_host() == runtime.memory().on_host);
    chunks.push_back(runtime.chunk());
    if (rows.empty()) rows = found.rows.values();
    CHECK(largest_difference(found.rows.values(), rows) < 5e-6);
  }
  CHECK(chunks.front() == 150);
  CHECK(chunks.back() == 16);
  CpuDeviceModel runtime(model.file, model.config, make_device(), least - 1);
  DenseRows sink(model.config, 150);
  CHECK_THROWS_AS(runtime.start(150, &sink), std::invalid_argument);
  CHECK_THROWS_WITH(runtime.start(150, &sink), Contains("150 tokens") &&
                                                   Contains("B of device memory") &&
                                                   Contains("fewer tokens"));
  runtime.start(150, nullptr);  // without rows it fits
}

TEST_CASE("the order of a kernel's threads does not change a run") {
  const ModelFile model(model_of_shape(3, 1, 10));
  const auto ids = ids_of(90, 37);
  const auto run = [&](ThreadOrder order) {
    const auto device = make_device();
    device->order = order;
    CpuDeviceModel runtime(model.file, model.config, device, kNoLimit);
    return run_of(runtime, ids, 80);
  };
  const RunOfModel forward = run(ThreadOrder::ascending);
  const RunOfModel backward = run(ThreadOrder::descending);
  CHECK(forward.rows.values() == backward.rows.values());
  CHECK(forward.logits == backward.logits);
}

TEST_CASE("computing waits while all buffers are held, and nothing in them is overwritten") {
  const ModelFile model(model_of_shape(2, 1, 8, 7));
  const auto ids = ids_of(70, model.config.vocabulary);
  CpuModel cpu(model.file, model.config, {});
  RunOfModel expected = run_of(cpu, ids, 70);

  const TraceInfo plan = plan_of_all(model.config, 70);
  HoldingSink sink(plan);
  CpuDeviceModel runtime(model.file, model.config, make_device(), kNoLimit);
  runtime.start(70, &sink);
  REQUIRE(runtime.memory().buffers == 4);
  REQUIRE(runtime.chunk() == 70);
  auto computing = std::async(std::launch::async, [&] { runtime.forward(ids, {}); });
  while (sink.count() < 4) std::this_thread::yield();
  CHECK(computing.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  CHECK(sink.count() == 4);
  for (std::uint32_t layer = 0; layer < 7; ++layer) {
    while (sink.count() < std::min(layer + 4, 7U)) std::this_thread::yield();
    const auto block = sink.next();
    REQUIRE(block != nullptr);
    for (const StoredRows& stored : block->wait()) {
      CHECK(stored.layer == layer);
      CHECK(stored.rows.size() == 70);
      const auto* row = reinterpret_cast<const float*>(stored.bytes.data());
      for (std::uint32_t i = 0; i < 70; row += RowLayout::padded_length(i++))
        REQUIRE(largest_difference({row, i + 1}, {expected.rows.at(layer, stored.head, i), i + 1}) <
                2e-5);
    }
  }
  computing.get();
  CHECK(sink.next() == nullptr);
}

TEST_CASE("what a sink refuses ends a run of the device runtime, which can start again") {
  const ModelFile model(model_of_shape(2, 1, 8));
  const auto ids = ids_of(20, 37);
  HoldingSink sink(plan_of_all(model.config, 20));
  CpuDeviceModel runtime(model.file, model.config, make_device(), kNoLimit);
  sink.refuses = true;
  for (int i = 0; i < 6; ++i) {  // more often than there are buffers
    runtime.start(20, &sink);
    CHECK_THROWS_AS(runtime.forward(ids, {}), OutputError);
  }
  sink.refuses = false;
  runtime.start(20, &sink);
  runtime.forward(ids, {});
  CHECK(sink.count() == 2);
}

TEST_CASE("wrong calls, interruption and weights that are no numbers, on the device runtime") {
  TinyModel tiny = model_of_shape(3, 1, 10);
  tiny.weights["blk.1.attn_k.weight"][5] = std::numeric_limits<float>::quiet_NaN();
  const ModelFile model(tiny);
  CpuDeviceModel runtime(model.file, model.config, make_device(), kNoLimit);
  const auto ids = ids_of(9, tiny.vocabulary);
  std::vector<float> logits(tiny.vocabulary);
  CHECK_THROWS_AS(runtime.start(0, nullptr), std::invalid_argument);
  CHECK_THROWS_AS(runtime.forward(std::span(ids).first(1), {}), std::invalid_argument);
  runtime.start(8, nullptr);
  CHECK_THROWS_AS(runtime.logits(0, 1, logits), std::invalid_argument);
  CHECK_THROWS_AS(runtime.forward(ids, {}), std::invalid_argument);
  const std::uint32_t unknown[] = {tiny.vocabulary};
  CHECK_THROWS_WITH(runtime.forward(unknown, {}), Contains("37"));
  CHECK_THROWS_WITH(
      runtime.forward(std::span(ids).first(4), {}),
      Contains("tiny.gguf") && Contains("layer 1, head 0, rows from 0") && Contains("not finite"));
  CHECK_THROWS_AS(runtime.logits(0, 1, logits), std::invalid_argument);
  const std::atomic<bool> stop{true};
  RunControl control;
  control.stop = &stop;
  CHECK_THROWS_AS(runtime.forward(std::span(ids).first(1), control), Interrupted);
}

TEST_CASE("heads that a device cannot attend with or record are refused") {
  const ModelFile huge(model_of_shape(1, 1, 258));
  CHECK_THROWS_WITH(CpuDeviceModel(huge.file, huge.config, make_device(), kNoLimit),
                    Contains("heads of 258 values") && Contains("256"));
  const ModelFile large(model_of_shape(2, 1, 256));
  const auto device = make_device();
  CpuDeviceModel runtime(large.file, large.config, device, kNoLimit);
  DenseRows sink(large.config, 10);
  // Compute capability 7.5 has 64 KiB a block, later ones 99 and more.
  CHECK_THROWS_WITH(runtime.start(10, &sink), Contains("recording heads of 256 values") &&
                                                  Contains("65536") && Contains("CPU"));
  device->shared_bytes = 99 << 10;
  runtime.start(10, &sink);
  runtime.forward(ids_of(10, 37), {});
  CHECK(sink.at(0, 0, 0)[0] == 1);
}

TEST_CASE("a buffer of the ring takes whole blocks of rows where it can, else what it can") {
  TraceInfo plan;
  plan.tokens = 1000;
  plan.model_layers = 1;
  plan.model_heads = 4;
  plan.kv_heads = 2;
  plan.head_size = 8;
  plan.layers = {0};
  plan.heads = {0, 3};
  plan.encoding = Encoding::fp16;
  const auto size = [&](RowRange rows) { return cuda::BlockLayout(plan, rows).size; };
  // Rows 128..130 are 192 values long: 2 heads of 3 x 384 bytes, and 3 + 3 floats each.
  CHECK(size({128, 131}) == 2 * 3 * 384 + 2 * (2 * 3 * 4 + 8));
  const auto fitting = [&](RowRange rows, std::uint64_t bytes) {
    const RowRange found = cuda::rows_that_fit(plan, rows, bytes);
    CHECK(found.first == rows.first);
    CHECK(size(found) <= bytes);
    return found.last;
  };
  CHECK(fitting({5, 1000}, size({5, 1000})) == 1000);
  CHECK(fitting({5, 1000}, size({5, 1000}) - 1) == 960);
  CHECK(fitting({5, 1000}, size({5, 70})) == 64);
  CHECK(fitting({5, 1000}, size({5, 60})) == 60);
  CHECK(fitting({128, 1000}, size({128, 131})) == 131);
  CHECK(fitting({128, 1000}, size({128, 129})) == 129);
  plan.encoding = Encoding::factors;
  plan.values = true;
  // Queries of 2 heads, keys and values of 2 KV heads: 6 vectors of 32 bytes, and 2 + 2 floats.
  CHECK(size({7, 8}) == 6 * 32 + 2 * 16);
  plan.sampling = {8, 2};  // of row 7 only keys and values, of rows 7 to 10 two queries
  CHECK(size({7, 8}) == 4 * 32);
  CHECK(size({7, 11}) == (2 * 2 + 4 * 4) * 32 + 2 * 16);
  plan.values = false;
  plan.norms = true;  // they are taken of vectors on the host
  CHECK(size({7, 8}) == 4 * 32);
}

}  // namespace kvreplay::testing
