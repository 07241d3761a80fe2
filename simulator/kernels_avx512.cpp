#if defined(__x86_64__)

#include <immintrin.h>

#include "simulator/kernels.hpp"

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

using Floats = __m512;
Floats loaded(const float* numbers) {
  return _mm512_loadu_ps(numbers);
}
std::uint32_t where_at_least(Floats a, Floats b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}
/// Eight words at a time: bits of half bytes are looked up, those of bytes added up.
Missing count_missing(const std::uint64_t* needed, const std::uint64_t* held,
                      const std::uint64_t* waiting, std::size_t words) {
  const __m512i counts =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
  const __m512i half = _mm512_set1_epi8(15);
  __m512i count = _mm512_setzero_si512();
  std::uint64_t waited_for = 0;
  for (std::size_t word = 0; word < words; word += 8) {
    const std::size_t left = words - word;
    const auto used = static_cast<__mmask8>(left < 8 ? (1U << left) - 1 : 255U);
    const __m512i need = _mm512_maskz_loadu_epi64(used, needed + word);
    const __m512i missing = _mm512_andnot_si512(_mm512_maskz_loadu_epi64(used, held + word), need);
    const __m512i low = _mm512_shuffle_epi8(counts, _mm512_and_si512(missing, half));
    const __m512i high =
        _mm512_shuffle_epi8(counts, _mm512_and_si512(_mm512_srli_epi64(missing, 4), half));
    count = _mm512_add_epi64(count,
                             _mm512_sad_epu8(_mm512_add_epi8(low, high), _mm512_setzero_si512()));
    waited_for |=
        std::uint64_t{_mm512_test_epi64_mask(need, _mm512_maskz_loadu_epi64(used, waiting + word))}
        << word;
  }
  return {static_cast<std::uint32_t>(_mm512_reduce_add_epi64(count)), waited_for};
}
#include "simulator/needed_kernels.inl"

}  // namespace

const Kernels avx512_kernels = {
    {&load_row, &add_changed, &add_rows, &add_and_find, &find_lowest},
    {&largest_of_classes, &mark_at_least, &sum_below, &sums_below, &count_missing},
    "AVX-512"};

}  // namespace kvreplay

#endif
