#include "traces/encoding.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "traces/half.hpp"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace kvreplay {
namespace {

static_assert(std::endian::native == std::endian::little, "traces are little-endian in place");

void encode_fp16(const float* values, std::uint16_t* out, std::size_t count) {
  std::size_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
#endif
  for (; i < count; ++i) out[i] = half_from_float(values[i]);
}

void decode_fp16(const std::uint16_t* stored, float* out, std::size_t count) {
  std::size_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(stored + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
  }
#endif
  for (; i < count; ++i) out[i] = float_from_half(stored[i]);
}

// u16log: code c stands for 2^(-c/2048); 65535 stands for 0. Integers carry the whole octaves and
// floats the part within one, so that the code is right to 2e-4 of its unit at every magnitude.
// Branch-free: the compiler vectorises the loop. This file is built without contraction to fused
// multiply-adds, so every machine computes the same codes.
constexpr std::uint16_t kZeroCode = 65535;

std::uint16_t log_code(float value) {
  // The mantissa is taken in [sqrt(1/2), sqrt(2)), where the series below converges fastest.
  constexpr std::uint32_t kSqrtHalf = 0x3F3504F3U;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto octave = static_cast<std::int32_t>(bits - kSqrtHalf) >> 23;
  const auto mantissa = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(octave) << 23));
  // log2 m = 2/ln 2 * atanh s = 2/ln 2 * (s + s^3/3 + s^5/5 + ...); the first term left out is
  // below 5e-8.
  const float s = (mantissa - 1.0F) / (mantissa + 1.0F);
  const float s2 = s * s;
  constexpr float kUnit = 2048.0F * 2.885390082F;
  const float within =
      s * (kUnit + s2 * (kUnit / 3.0F + s2 * (kUnit / 5.0F + s2 * (kUnit / 7.0F))));
  // Adding and taking away 1.5 * 2^23 rounds to the nearest integer.
  constexpr float kRound = 12582912.0F;
  const std::int32_t code = -2048 * octave - static_cast<std::int32_t>((within + kRound) - kRound);
  const std::int32_t clamped = code < 0 ? 0 : code < kZeroCode ? code : kZeroCode;
  const bool positive = bits - 1U < 0x7F800000U;  // not 0, not negative, not NaN
  return static_cast<std::uint16_t>(positive ? clamped : kZeroCode);
}

// 2^(-c/2048): whole octaves in the exponent, the rest, at most half an octave, by the series of
// e^x, whose first term left out is below 2e-7 at the ends and nothing in between.
float value_of(std::uint32_t code) {
  const std::uint32_t octaves = (code + 1024U) >> 11;
  const auto rest = static_cast<std::int32_t>(octaves << 11) - static_cast<std::int32_t>(code);
  const float x = static_cast<float>(rest) * (0.69314718F / 2048);
  const float power =
      1.0F + x * (1.0F + x * (0.5F + x * (1.0F / 6 +
                                          x * (1.0F / 24 + x * (1.0F / 120 + x * (1.0F / 720))))));
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(power) - (octaves << 23);
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(code != kZeroCode);
  return std::bit_cast<float>(bits & mask);
}

void encode_u16log(const float* values, std::uint16_t* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = log_code(values[i]);
}

void decode_u16log(const std::uint16_t* stored, float* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = value_of(stored[i]);
}

void check_sizes(Encoding encoding, std::size_t values, std::size_t bytes) {
  if (bytes != values * bytes_per_value(encoding))
    throw std::invalid_argument("the sizes of values and stored bytes do not match");
}

}  // namespace

void encode(Encoding encoding, std::span<const float> values, std::span<std::byte> out) {
  check_sizes(encoding, values.size(), out.size());
  switch (encoding) {
    case Encoding::fp16:
      return encode_fp16(values.data(), reinterpret_cast<std::uint16_t*>(out.data()),
                         values.size());
    case Encoding::u16log:
      return encode_u16log(values.data(), reinterpret_cast<std::uint16_t*>(out.data()),
                           values.size());
    case Encoding::fp32:
      std::memcpy(out.data(), values.data(), out.size());
      return;
    case Encoding::factors:
      break;  // has been refused
  }
}

void decode(Encoding encoding, std::span<const std::byte> stored, std::span<float> out) {
  check_sizes(encoding, out.size(), stored.size());
  switch (encoding) {
    case Encoding::fp16:
      return decode_fp16(reinterpret_cast<const std::uint16_t*>(stored.data()), out.data(),
                         out.size());
    case Encoding::u16log:
      return decode_u16log(reinterpret_cast<const std::uint16_t*>(stored.data()), out.data(),
                           out.size());
    case Encoding::fp32:
      std::memcpy(out.data(), stored.data(), stored.size());
      return;
    case Encoding::factors:
      break;  // has been refused
  }
}

}  // namespace kvreplay
