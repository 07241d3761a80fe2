// IEEE half precision in integer arithmetic: for single values, for machines without the
// instructions, and for other devices.
#pragma once

#include <bit>
#include <cstdint>

namespace kvreplay {

/// Rounds to nearest even.
constexpr std::uint16_t half_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U)  // NaN: quiet, payload's top bits kept
    return static_cast<std::uint16_t>(sign | 0x7E00U | (magnitude >> 13 & 0x3FFU));
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // >= 65520
  if (magnitude < 0x38800000U) {  // below 2^-14: adding 0.5 rounds to a multiple of 2^-24
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3F000000U));
  }
  const std::uint32_t odd = magnitude >> 13 & 1U;
  const std::uint32_t rounded = magnitude + 0xFFFU + odd - 0x38000000U;
  return static_cast<std::uint16_t>(sign | rounded >> 13);
}

constexpr float float_from_half(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half} << 16 & 0x80000000U;
  const std::uint32_t exponent = half >> 10 & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  if (exponent == 31) {
    const std::uint32_t quiet = mantissa != 0 ? 0x400000U : 0;
    return std::bit_cast<float>(sign | 0x7F800000U | mantissa << 13 | quiet);
  }
  return std::bit_cast<float>(sign | (exponent + 112U) << 23 | mantissa << 13);
}

}  // namespace kvreplay
