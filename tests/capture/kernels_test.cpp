// The kernels of capture/cuda on the CPU, against the CPU runtime. device_test.cpp does the same on
// a device.
#include <catch2/catch.hpp>

#include "cpu_block.hpp"
#include "kernel_suite.hpp"

namespace kvreplay::testing {

TEST_CASE("attention kernels agree with the CPU runtime") {
  attention_agrees<CpuMachine>();
}

TEST_CASE("parts of attention over split keys merge to the whole") {
  split_keys_merge<CpuMachine>();
}

TEST_CASE("recorded rows agree with the CPU runtime in all encodings") {
  recording_agrees<CpuMachine>();
}

TEST_CASE("the parts that keys are recorded in do not change rows") {
  parts_do_not_change_rows<CpuMachine>();
}

TEST_CASE("chosen heads are recorded as among all") {
  chosen_heads_are_recorded<CpuMachine>();
}

TEST_CASE("every so many rows are recorded as among all") {
  sampled_rows_are_recorded<CpuMachine>();
}

TEST_CASE("kernels agree with the CPU runtime on random shapes") {
  random_shapes_agree<CpuMachine>();
}

TEST_CASE("scores near -1e5 neither pass the kernels' mask nor cost their rows' precision") {
  scores_near_minus_1e5<CpuMachine>();
}

TEST_CASE("equal scores make uniform rows in kernels") {
  equal_scores_are_uniform<CpuMachine>();
}

TEST_CASE("scores that are not finite show in the kernels' log-sum-exp") {
  what_is_not_finite_shows<CpuMachine>();
}

TEST_CASE("the norm kernel agrees with the definition in double") {
  norm_agrees<CpuMachine>();
  norm_of_heads_agrees<CpuMachine>();
  layer_norm_agrees<CpuMachine>();
}

TEST_CASE("the rotation kernel agrees with the CPU runtime's, into a cache and in place") {
  rotation_agrees<CpuMachine>();
}

TEST_CASE("gates of kernels agree with the definition") {
  activations_agree<CpuMachine>();
  rows_are_added<CpuMachine>();
}

TEST_CASE("the vectors of chosen heads are gathered") {
  chosen_vectors_are_gathered<CpuMachine>();
}

TEST_CASE("no kernel depends on the order of its threads") {
  for (const AttentionProblem& problem : awkward_problems()) {
    CpuMachine forward(ThreadOrder::ascending);
    CpuMachine backward(ThreadOrder::descending);
    for (const std::uint32_t splits : {1U, 3U}) {
      const Attended a = attend_on<64, 128>(forward, problem, splits);
      const Attended b = attend_on<64, 128>(backward, problem, splits);
      CHECK(a.output == b.output);
      CHECK(a.total == b.total);
      if (splits > 1) continue;
      const auto record = [&](CpuMachine& machine, const cuda::LogSumExp& lse) {
        return record_on<64, cuda::U16LogCode>(machine, problem, lse, 2);
      };
      const Recorded of_a = record(forward, a.lse);
      const Recorded of_b = record(backward, b.lse);
      CHECK(of_a.bytes == of_b.bytes);
      CHECK(of_a.columns == of_b.columns);
      CHECK(of_a.sums == of_b.sums);
    }
  }
}

TEST_CASE("heads of 128 values fit into the shared storage of every device") {
  constexpr std::size_t kLeast = 64 << 10;  // of compute capability 7.5
  const cuda::AttentionShape shape{32, 8, 128, 0, 1, 0};
  cuda::Attend<64, 128> attend;
  cuda::RecordRows<64, cuda::U16LogCode> record;
  cuda::RecordRows<64, cuda::Fp32Code> record_fp32;
  attend.shape = record.shape = record_fp32.shape = shape;
  CHECK(attend.shared_bytes() <= kLeast);
  CHECK(record.shared_bytes() <= kLeast);
  CHECK(record_fp32.shared_bytes() <= kLeast);
}

TEST_CASE("log codes of kernels keep their bounds") {
  constexpr int kDistances = 221'800;
  int next = 0;
  for (int at = 0; at < kDistances; ++at) {
    const float distance = static_cast<float>(at) * 1e-4F;
    const float p = std::exp(-distance);
    const std::uint16_t code = cuda::U16LogCode::of(distance);
    std::uint16_t expected = 0;
    encode(Encoding::u16log, std::span(&p, 1), std::as_writable_bytes(std::span(&expected, 1)));
    REQUIRE(std::abs(int{code} - int{expected}) <= 1);
    if (code != expected) ++next;
    REQUIRE(cuda::U16LogCode::value(code) == Approx(p).epsilon(1.75e-4));
  }
  CHECK(next < kDistances / 100);
  CHECK(cuda::U16LogCode::of(-0.5F) == 0);
  CHECK(cuda::U16LogCode::of(22.182F) == 65535);
  CHECK(cuda::U16LogCode::of(std::numeric_limits<float>::infinity()) == 65535);
  CHECK(cuda::U16LogCode::of(std::numeric_limits<float>::quiet_NaN()) == 65535);
  CHECK(cuda::U16LogCode::value(65535) == 0);
}

}  // namespace kvreplay::testing
