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
void gather_eight(const float* row, const std::uint32_t* tokens, float* out) {
  const __m256i places = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tokens));
  _mm256_storeu_ps(out, _mm256_i32gather_ps(row, places, 4));
}
#include "simulator/lane_kernels.inl"

using Floats = __m512;
Floats loaded(const float* numbers) {
  return _mm512_loadu_ps(numbers);
}
std::uint32_t where_at_least(Floats a, Floats b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}
float* pressed(Floats numbers, std::uint32_t bits, float* to) {
  // Faster than to store them compressed.
  _mm512_storeu_ps(to, _mm512_maskz_compress_ps(static_cast<__mmask16>(bits), numbers));
  return to + __builtin_popcount(bits);
}
/// The words from `word` on, eight or as many as there are.
__m512i eight_words(const std::uint64_t* words, std::size_t word, std::size_t count) {
  const std::size_t left = count - word;
  return _mm512_maskz_loadu_epi64(static_cast<__mmask8>(left < 8 ? (1U << left) - 1 : 255U),
                                  words + word);
}
/// Of eight words each: bits of half bytes are looked up, those of bytes added up.
__m512i looked_up_counts(__m512i words) {
  const __m512i counts =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
  const __m512i half = _mm512_set1_epi8(15);
  const __m512i low = _mm512_shuffle_epi8(counts, _mm512_and_si512(words, half));
  const __m512i high =
      _mm512_shuffle_epi8(counts, _mm512_and_si512(_mm512_srli_epi64(words, 4), half));
  return _mm512_sad_epu8(_mm512_add_epi8(low, high), _mm512_setzero_si512());
}
/// The body of count_missing() by `counts`, the bits in each of eight words.
template <class Counts>
[[gnu::always_inline]] inline void count_missing_by(const std::uint64_t* needed, std::size_t sets,
                                                    std::size_t apart, const std::uint64_t* held,
                                                    std::size_t words, std::uint32_t* missing,
                                                    Counts counts) {
  for (std::size_t set = 0; set < sets; ++set, needed += apart) {
    __m512i count = _mm512_setzero_si512();
    for (std::size_t word = 0; word < words; word += 8) {
      const __m512i lacks =
          _mm512_andnot_si512(eight_words(held, word, words), eight_words(needed, word, words));
      count = _mm512_add_epi64(count, counts(lacks));
    }
    missing[set] = static_cast<std::uint32_t>(_mm512_reduce_add_epi64(count));
  }
}
void count_missing(const std::uint64_t* needed, std::size_t sets, std::size_t apart,
                   const std::uint64_t* held, std::size_t words, std::uint32_t* missing) {
  count_missing_by(needed, sets, apart, held, words, missing, &looked_up_counts);
}
[[gnu::target("avx512vpopcntdq")]] __m512i counts_at_once(__m512i words) {
  return _mm512_popcnt_epi64(words);
}
[[gnu::target("avx512vpopcntdq")]] void count_missing_at_once(const std::uint64_t* needed,
                                                              std::size_t sets, std::size_t apart,
                                                              const std::uint64_t* held,
                                                              std::size_t words,
                                                              std::uint32_t* missing) {
  count_missing_by(needed, sets, apart, held, words, missing, &counts_at_once);
}
std::uint64_t common_words(const std::uint64_t* one, const std::uint64_t* other,
                           std::size_t words) {
  std::uint64_t common = 0;
  for (std::size_t word = 0; word < words; word += 8) {
    common |= std::uint64_t{_mm512_test_epi64_mask(eight_words(one, word, words),
                                                   eight_words(other, word, words))}
              << word;
  }
  return common;
}
#include "simulator/needed_kernels.inl"

}  // namespace

namespace {
constexpr LaneKernels kLanes = {&add_changed, &add_rows, &gather, &add_and_find, &find_lowest};
}

// Constants: nothing of this file may run on a machine that lacks these vectors.
constinit const Kernels avx512_kernels = {
    kLanes,
    {&largest_of_classes, &nth_of_classes, &mark_at_least, &collect, &sums_below, &sums_up_to,
     &count_missing, &common_words},
    "AVX-512"};

constinit const Kernels avx512_popcount_kernels = {
    kLanes,
    {&largest_of_classes, &nth_of_classes, &mark_at_least, &collect, &sums_below, &sums_up_to,
     &count_missing_at_once, &common_words},
    "AVX-512 that counts bits"};

}  // namespace kvreplay

#endif
