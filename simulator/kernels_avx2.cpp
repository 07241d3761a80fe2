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
    {&load_row, &add_changed, &add_rows, &add_and_find, &find_lowest},
    {&largest_of_classes, &nth_of_classes, &mark_at_least, &collect, &sums_below, &sums_up_to,
     &count_missing_by_word, &common_words_by_word},
    "AVX2"};

}  // namespace kvreplay

#endif
