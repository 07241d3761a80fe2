#if defined(__x86_64__)

#include <immintrin.h>

#include "simulator/kernels.hpp"

namespace kvreplay {
namespace {

constexpr std::uint32_t kWidth = 4;
using Vector = __m256d;
Vector widened(const float* numbers) {
  return _mm256_cvtps_pd(_mm_loadu_ps(numbers));
}
std::uint32_t where_below(Vector a, Vector b) {
  return static_cast<std::uint32_t>(_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_LT_OQ)));
}
Vector fused(Vector a, Vector b, Vector c) {
  return _mm256_fmadd_pd(a, b, c);
}
void gather_eight(const float* row, const std::uint32_t* tokens, float* out) {
  const __m256i places = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tokens));
  _mm256_storeu_ps(out, _mm256_i32gather_ps(row, places, 4));
}
#include "simulator/lane_kernels.inl"

using Floats = __m256;
Floats loaded(const float* numbers) {
  return _mm256_loadu_ps(numbers);
}
std::uint32_t where_at_least(Floats a, Floats b) {
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ)));
}
float* pressed(Floats numbers, std::uint32_t bits, float* to) {
  for (; bits != 0; bits &= bits - 1) *to++ = numbers[__builtin_ctz(bits)];
  return to;
}
#include "simulator/needed_kernels.inl"

}  // namespace

constinit const Kernels avx2_kernels = {
    {&add_changed, &add_rows, &gather, &add_and_find, &find_lowest},
    {&largest_of_classes, &nth_of_classes, &mark_at_least, &collect, &sums_below, &sums_up_to,
     &count_missing_by_word, &common_words_by_word},
    "AVX2"};

}  // namespace kvreplay

#endif
