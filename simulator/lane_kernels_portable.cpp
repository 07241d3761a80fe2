#include "simulator/lane_kernels.hpp"

namespace kvreplay {
namespace {

constexpr std::uint32_t kWidth = 2;
using Vector [[gnu::vector_size(kWidth * sizeof(double)), gnu::may_alias]] = double;
Vector widened(const float* numbers) {
  return Vector{numbers[0], numbers[1]};
}
std::uint32_t where_below(Vector a, Vector b) {
  return (a[0] < b[0] ? 1U : 0U) | (a[1] < b[1] ? 2U : 0U);
}
Vector fused(Vector a, Vector b, Vector c) {
  return a * b + c;
}
#include "simulator/lane_kernels.inl"

}  // namespace

const LaneKernels portable_lane_kernels = {&load_row,     &add_changed, &add_rows,
                                           &add_and_find, &find_lowest, "128 bits"};

}  // namespace kvreplay
