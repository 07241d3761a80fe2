#include "simulator/lane_kernels.hpp"

#include <array>

namespace kvreplay {

std::span<const LaneKernels* const> lane_kernels() {
#if defined(__x86_64__)
  static const std::array all = {&avx512_lane_kernels, &avx2_lane_kernels, &portable_lane_kernels};
  const std::size_t too_wide = __builtin_cpu_supports("x86-64-v4")   ? 0
                               : __builtin_cpu_supports("x86-64-v3") ? 1
                                                                     : 2;
  return std::span(all).subspan(too_wide);
#else
  static const std::array all = {&portable_lane_kernels};
  return all;
#endif
}

}  // namespace kvreplay
