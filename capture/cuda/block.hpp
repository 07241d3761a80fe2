// What a kernel sees of the block of threads that runs it. Kernels are functors over a block, so
// that one source runs on a device, thread by thread, and on the CPU, as loops between barriers:
//
//   block.index()           which block of the grid this is
//   block.phase(f)          f(thread) for every thread, then a barrier
//   block.shared<T>(count)  storage that all threads of the block see, 16-byte aligned; in order
//   block.local<T>()        a T for each thread, kept from phase to phase: [thread]; registers
//
// Code outside phases is the same for all threads and touches no storage that a phase writes.
// Within a phase no thread reads what another one writes. A kernel holds its parameters and says
// what a launch of it needs: kThreads, grid(), shared_bytes().
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define KVREPLAY_DEVICE __device__
#define KVREPLAY_HOST_DEVICE __host__ __device__
#define KVREPLAY_UNROLL _Pragma("unroll")
#define KVREPLAY_NO_UNROLL _Pragma("unroll 1")
#else
#define KVREPLAY_DEVICE
#define KVREPLAY_HOST_DEVICE
#define KVREPLAY_UNROLL
#define KVREPLAY_NO_UNROLL
#endif

namespace kvreplay::cuda {

/// A grid's size in blocks, or a block's place in it.
struct Grid {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
};

/// What one thread loads or stores at once.
template <class T>
struct alignas(16) Line {
  static constexpr std::uint32_t kValues = 16 / sizeof(T);
  T value[kValues];
};

/// The line that begins at `values[index]`, a multiple of 16 bytes.
template <class T>
KVREPLAY_HOST_DEVICE const Line<T>& line_at(const T* values, std::uint32_t index) {
  return *reinterpret_cast<const Line<T>*>(values + index);
}

template <class T>
KVREPLAY_HOST_DEVICE constexpr T smaller(T a, T b) {
  return b < a ? b : a;
}

template <class T>
KVREPLAY_HOST_DEVICE constexpr T larger(T a, T b) {
  return a < b ? b : a;
}

template <class T>
KVREPLAY_HOST_DEVICE constexpr T divide_up(T a, T b) {
  return (a + b - 1) / b;
}

/// Bytes that a call of shared<T>(count) takes.
template <class T>
KVREPLAY_HOST_DEVICE constexpr std::size_t shared_size(std::uint32_t count) {
  return divide_up(count * sizeof(T), std::size_t{16}) * 16;
}

/// The sum of kThreads values in shared storage, by halves: the order is the same on every device.
/// It takes the first value's place; the others are overwritten.
template <std::uint32_t kThreads, class Block>
KVREPLAY_DEVICE void block_sum(Block& block, float* values) {
  static_assert((kThreads & (kThreads - 1)) == 0);
  for (std::uint32_t half = kThreads / 2; half > 0; half /= 2)
    block.phase([&](std::uint32_t thread) {
      if (thread < half) values[thread] += values[thread + half];
    });
}

}  // namespace kvreplay::cuda
