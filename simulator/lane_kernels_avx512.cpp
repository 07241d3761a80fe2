#if defined(__x86_64__)

#include "simulator/lane_kernels.hpp"

namespace kvreplay {
namespace {

constexpr std::uint32_t kWidth = 8;
#include "simulator/lane_kernels.inl"

}  // namespace

const LaneKernels avx512_lane_kernels = {&add_held, &add_rows, &add_and_find, &find_lowest,
                                         "AVX-512"};

}  // namespace kvreplay

#endif
