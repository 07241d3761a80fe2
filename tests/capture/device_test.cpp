// The kernels of capture/cuda and the runtime on a device: all that kernels_test.cpp and
// device_model_test.cpp ask of them on the CPU, and that both give the same. Skipped where there is
// no device; not run on a GPU yet.
#include <catch2/catch.hpp>

#include "paths.hpp"

#ifdef KVREPLAY_CUDA

#include "capture/cuda/cuda_device.hpp"
#include "cpu_block.hpp"
#include "device_model_suite.hpp"
#include "kernel_suite.hpp"

namespace kvreplay::testing {
namespace {

class DeviceMachine {
 public:
  template <class T>
  T* put(const std::vector<T>& values) {
    T* copy = room<T>(values.size());
    if (!values.empty()) buffers_.back().upload(std::as_bytes(std::span(values)));
    return copy;
  }
  template <class T>
  T* room(std::size_t count, int fill = kNanBytes) {
    buffers_.emplace_back(count * sizeof(T)).fill(fill);
    return reinterpret_cast<T*>(buffers_.back().data());
  }
  template <class T>
  std::vector<T> get(const T* from, std::size_t count) {
    std::vector<T> values(count);
    cuda::check(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost),
                "running a kernel and fetching what it computed");
    return values;
  }
  template <class Kernel>
  void run(const Kernel& kernel) {
    cuda::launch(kernel, nullptr);
  }

 private:
  std::vector<cuda::Buffer<std::byte>> buffers_;
};

bool device_or_skip() {
  const std::string reason = cuda::why_no_runtime();
  if (!reason.empty()) skip("no GPU: " + reason);
  return reason.empty();
}

std::shared_ptr<cuda::CudaDevice> make_cuda_device() {
  return std::make_shared<cuda::CudaDevice>();
}

/// A prefill of SmolLM2's shape, large enough for many blocks at once.
AttentionProblem long_problem() {
  return random_problem({9, 3, 64, 0, 1, 0}, {0, 700}, 5);
}

}  // namespace

TEST_CASE("all kernels agree with the CPU runtime on a device", "[gpu]") {
  if (!device_or_skip()) return;
  attention_agrees<DeviceMachine>();
  split_keys_merge<DeviceMachine>();
  recording_agrees<DeviceMachine>();
  parts_do_not_change_rows<DeviceMachine>();
  chosen_heads_are_recorded<DeviceMachine>();
  sampled_rows_are_recorded<DeviceMachine>();
  random_shapes_agree<DeviceMachine>();
  scores_near_minus_1e5<DeviceMachine>();
  equal_scores_are_uniform<DeviceMachine>();
  what_is_not_finite_shows<DeviceMachine>();
  norm_agrees<DeviceMachine>();
  norm_of_heads_agrees<DeviceMachine>();
  layer_norm_agrees<DeviceMachine>();
  rotation_agrees<DeviceMachine>();
  activations_agree<DeviceMachine>();
  rows_are_added<DeviceMachine>();
  chosen_vectors_are_gathered<DeviceMachine>();
}

TEST_CASE("a long prefill on a device agrees with the CPU runtime", "[gpu]") {
  if (!device_or_skip()) return;
  DeviceMachine machine;
  check_attention<64, 64>(machine, long_problem(), 1);
  check_attention<64, 64>(machine, long_problem(), 4);
  check_recording<64, 64>(machine, long_problem(), 4);
}

TEST_CASE("a device records the same bytes every time", "[gpu]") {
  if (!device_or_skip()) return;
  const auto record = [] {
    DeviceMachine machine;
    const auto lse = attend_on<64, 64>(machine, long_problem(), 3).lse;
    return record_on<64, cuda::U16LogCode>(machine, long_problem(), lse, 2);
  };
  const Recorded once = record();
  for (int i = 0; i < 5; ++i) {
    const Recorded again = record();
    CHECK(again.bytes == once.bytes);
    CHECK(again.columns == once.columns);
    CHECK(again.sums == once.sums);
  }
}

TEST_CASE("a device and the CPU store the same codes but for ties of rounding", "[gpu]") {
  if (!device_or_skip()) return;
  for (const AttentionProblem& problem : awkward_problems()) {
    const auto codes = [&](auto machine) {
      const auto lse = attend_on<64, 128>(machine, problem, 1).lse;
      const auto bytes = record_on<64, cuda::U16LogCode>(machine, problem, lse, 32).bytes;
      std::vector<std::uint16_t> stored(bytes.size() / 2);
      std::memcpy(stored.data(), bytes.data(), bytes.size());
      return stored;
    };
    const auto of_device = codes(DeviceMachine());
    const auto of_cpu = codes(CpuMachine());
    std::size_t next = 0;
    for (std::size_t i = 0; i < of_cpu.size(); ++i) {
      const int gap = std::abs(int{of_device[i]} - int{of_cpu[i]});
      REQUIRE(gap <= 1);
      if (gap == 1) ++next;
    }
    CAPTURE(next, of_cpu.size());
    CHECK(next <= of_cpu.size() / 50);
  }
}

TEST_CASE("what a device refuses is thrown in CUDA's words", "[gpu]") {
  if (!device_or_skip()) return;
  CHECK_THROWS_WITH(cuda::Buffer<float>(std::size_t{1} << 60),
                    Catch::Contains("allocating device memory"));
}

TEST_CASE("runs of all shapes on a device agree with the CPU runtime", "[gpu]") {
  if (!device_or_skip()) return;
  runs_of_all_shapes_agree(make_cuda_device);
  runs_of_random_shapes_agree(make_cuda_device);
}

TEST_CASE("captures on a device agree with the CPU runtime's", "[gpu]") {
  if (!device_or_skip()) return;
  captures_in_all_encodings_agree(make_cuda_device);
  captured_factors_agree(make_cuda_device);
  sampled_captures_agree(make_cuda_device);
}

TEST_CASE("a capture of many chunks and buffers on a device agrees with the CPU's", "[gpu]") {
  if (!device_or_skip()) return;
  TinyModel tiny = model_of_shape(9, 3, 64);
  tiny.context = 2048;
  const ModelFile model(tiny);
  CaptureCase what;
  what.encoding = Encoding::fp32;
  what.heads = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  what.prompt = 1500;
  what.limit = std::uint64_t{24} << 20;
  const auto traces = captured_by_both(model, what, make_cuda_device());
  CHECK(largest_difference_of_rows(*traces) < 2e-5);
  check_log_sum_exp(*traces);
}

TEST_CASE("cuBLAS is found where this was built, with all that is used of it") {
  CHECK(cuda::why_no_cublas().empty());
  if (cuda::why_no_device().empty())
    CHECK_NOTHROW(cuda::Cublas(nullptr));
  else
    CHECK_THROWS_WITH(cuda::Cublas(nullptr), Catch::Contains("cuBLAS, starting: "));
}

}  // namespace kvreplay::testing

#else

TEST_CASE("all kernels agree with the CPU runtime on a device", "[gpu]") {
  kvreplay::testing::skip("this build has no CUDA: nvcc was not found when it was configured");
}

#endif
