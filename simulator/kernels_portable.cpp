#include "simulator/kernels.hpp"

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
void gather_eight(const float* row, const std::uint32_t* tokens, float* out) {
  for (std::size_t at = 0; at < 8; ++at) out[at] = row[tokens[at]];
}
#include "simulator/lane_kernels.inl"

using Floats [[gnu::vector_size(2 * kWidth * sizeof(float))]] = float;
Floats loaded(const float* numbers) {
  return Floats{numbers[0], numbers[1], numbers[2], numbers[3]};
}
std::uint32_t where_at_least(Floats a, Floats b) {
  return (a[0] >= b[0] ? 1U : 0U) | (a[1] >= b[1] ? 2U : 0U) | (a[2] >= b[2] ? 4U : 0U) |
         (a[3] >= b[3] ? 8U : 0U);
}
float* pressed(Floats numbers, std::uint32_t bits, float* to) {
  for (; bits != 0; bits &= bits - 1) *to++ = numbers[__builtin_ctz(bits)];
  return to;
}
#include "simulator/needed_kernels.inl"

}  // namespace

constinit const Kernels portable_kernels = {
    {&add_changed, &add_rows, &gather, &add_and_find, &find_lowest},
    {&largest_of_classes, &nth_of_classes, &mark_at_least, &collect, &sums_below, &sums_up_to,
     &count_missing_by_word, &common_words_by_word},
    "128 bits"};

}  // namespace kvreplay
