#if defined(__x86_64__)

#include <immintrin.h>

#include "simulator/lane_kernels.hpp"

namespace kvreplay {
namespace {

constexpr std::uint32_t kWidth = 8;
using Vector = __m512d;
Vector widened(const float* numbers) {
  return _mm512_cvtps_pd(_mm256_loadu_ps(numbers));
}
std::uint32_t where_below(Vector a, Vector b) {
  return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ);
}
Vector fused(Vector a, Vector b, Vector c) {
  return _mm512_fmadd_pd(a, b, c);
}
#include "simulator/lane_kernels.inl"

}  // namespace

const LaneKernels avx512_lane_kernels = {&load_row,     &add_changed, &add_rows,
                                         &add_and_find, &find_lowest, "AVX-512"};

}  // namespace kvreplay

#endif
