#include "simulator/kernels.hpp"

#include <array>

namespace kvreplay {

std::span<const Kernels* const> available_kernels() {
#if defined(__x86_64__)
  // What -march=x86-64-v3 and -v4 may use, by features: clang does not know the levels by name.
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  const bool counts = v4 && __builtin_cpu_supports("avx512vpopcntdq");
  static const std::array all = {&avx512_popcount_kernels, &avx512_kernels, &avx2_kernels,
                                 &portable_kernels};
  return std::span(all).subspan(counts ? 0 : v4 ? 1 : v3 ? 2 : 3);
#else
  static const std::array all = {&portable_kernels};
  return all;
#endif
}

}  // namespace kvreplay
