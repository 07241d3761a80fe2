#include "simulator/lane_kernels.hpp"

namespace kvreplay {
namespace {

constexpr std::uint32_t kWidth = 2;
#include "simulator/lane_kernels.inl"

}  // namespace

const LaneKernels portable_lane_kernels = {&add_held, &add_rows, &add_and_find, &find_lowest,
                                           "128 bits"};

}  // namespace kvreplay
