// Each decoder follows the order of roundings of ggml's reference (scale times code first, then the
// minimum), so that results are bit-equal to it. The build compiles this file with
// -ffp-contract=off: a fused multiply-add would round once instead of twice.
#include "capture/dequantise.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "traces/errors.hpp"
#include "traces/quoted.hpp"

namespace kvreplay {

namespace {

static_assert(std::endian::native == std::endian::little, "blocks are read in place");

// Data in a file has no alignment to rely on, so every multi-byte value is copied out.
template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// IEEE half to single in integer operations and one exact multiplication, which loops vectorise.
// Multiplying by 2^112 moves the exponent's bias from 15 to 127 and normalises subnormals.
float from_half(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7fffU;
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(scaled);
  const std::uint32_t infinite_or_nan = (magnitude << 13) | 0x7f800000U;
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00U ? infinite_or_nan : finite));
}

float half_at(const std::byte* at) {
  return from_half(load<std::uint16_t>(at));
}

void decode_f32(const std::byte* in, std::size_t blocks, float* out) {
  std::memcpy(out, in, blocks * sizeof(float));
}

void decode_f16(const std::byte* in, std::size_t blocks, float* out) {
  for (std::size_t i = 0; i < blocks; ++i) out[i] = half_at(in + 2 * i);
}

void decode_bf16(const std::byte* in, std::size_t blocks, float* out) {
  for (std::size_t i = 0; i < blocks; ++i) {
    out[i] = std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(in + 2 * i)} << 16);
  }
}

// The 32-value kFormats share one nibble order: value j is the low half of byte j, value j + 16 its
// high half; qh holds the fifth bit of value j at bit j.
using Codes = std::array<std::int32_t, 32>;

Codes nibbles(const std::byte* qs) {
  Codes codes;
  for (std::size_t j = 0; j < 16; ++j) {
    const auto byte = std::to_integer<std::int32_t>(qs[j]);
    codes[j] = byte & 15;
    codes[j + 16] = byte >> 4;
  }
  return codes;
}

Codes nibbles_and_fifth_bit(const std::byte* qs, std::uint32_t qh) {
  Codes codes = nibbles(qs);
  for (std::size_t j = 0; j < 32; ++j) codes[j] |= static_cast<std::int32_t>((qh >> j) & 1U) << 4;
  return codes;
}

void decode_q4_0(const std::byte* in, std::size_t blocks, float* out) {
  for (; blocks > 0; --blocks, in += 18, out += 32) {
    const float d = half_at(in);
    const Codes codes = nibbles(in + 2);
    for (std::size_t j = 0; j < 32; ++j) out[j] = d * static_cast<float>(codes[j] - 8);
  }
}

void decode_q4_1(const std::byte* in, std::size_t blocks, float* out) {
  for (; blocks > 0; --blocks, in += 20, out += 32) {
    const float d = half_at(in);
    const float m = half_at(in + 2);
    const Codes codes = nibbles(in + 4);
    for (std::size_t j = 0; j < 32; ++j) out[j] = d * static_cast<float>(codes[j]) + m;
  }
}

void decode_q5_0(const std::byte* in, std::size_t blocks, float* out) {
  for (; blocks > 0; --blocks, in += 22, out += 32) {
    const float d = half_at(in);
    const Codes codes = nibbles_and_fifth_bit(in + 6, load<std::uint32_t>(in + 2));
    for (std::size_t j = 0; j < 32; ++j) out[j] = d * static_cast<float>(codes[j] - 16);
  }
}

void decode_q5_1(const std::byte* in, std::size_t blocks, float* out) {
  for (; blocks > 0; --blocks, in += 24, out += 32) {
    const float d = half_at(in);
    const float m = half_at(in + 2);
    const Codes codes = nibbles_and_fifth_bit(in + 8, load<std::uint32_t>(in + 4));
    for (std::size_t j = 0; j < 32; ++j) out[j] = d * static_cast<float>(codes[j]) + m;
  }
}

void decode_q8_0(const std::byte* in, std::size_t blocks, float* out) {
  for (; blocks > 0; --blocks, in += 34, out += 32) {
    const float d = half_at(in);
    for (std::size_t j = 0; j < 32; ++j) {
      out[j] = d * static_cast<float>(std::to_integer<std::int8_t>(in[2 + j]));
    }
  }
}

// Eight 6-bit scales and minima in 12 bytes: 0..3 are the low bits of bytes 0..3 and 4..7, 4..7
// take a nibble of bytes 8..11 and the two high bits of the former.
struct ScaleAndMinimum {
  float scale;
  float minimum;
};

ScaleAndMinimum scale_and_minimum(const std::byte* packed, std::size_t j, float d, float dmin) {
  const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(packed[i]); };
  const unsigned scale = j < 4 ? byte(j) & 63U : (byte(j + 4) & 15U) | ((byte(j - 4) >> 6) << 4);
  const unsigned minimum = j < 4 ? byte(j + 4) & 63U : (byte(j + 4) >> 4) | ((byte(j) >> 6) << 4);
  return {d * static_cast<float>(scale), dmin * static_cast<float>(minimum)};
}

void decode_q4_k(const std::byte* in, std::size_t blocks, float* out) {
  for (; blocks > 0; --blocks, in += 144) {
    const float d = half_at(in);
    const float dmin = half_at(in + 2);
    for (std::size_t group = 0; group < 8; ++group, out += 32) {
      const auto [scale, minimum] = scale_and_minimum(in + 4, group, d, dmin);
      const std::byte* qs = in + 16 + 32 * (group / 2);
      const auto shift = static_cast<int>(4 * (group % 2));
      for (std::size_t j = 0; j < 32; ++j) {
        const int code = (std::to_integer<int>(qs[j]) >> shift) & 15;
        out[j] = scale * static_cast<float>(code) - minimum;
      }
    }
  }
}

void decode_q5_k(const std::byte* in, std::size_t blocks, float* out) {
  for (; blocks > 0; --blocks, in += 176) {
    const float d = half_at(in);
    const float dmin = half_at(in + 2);
    const std::byte* qh = in + 16;
    for (std::size_t group = 0; group < 8; ++group, out += 32) {
      const auto [scale, minimum] = scale_and_minimum(in + 4, group, d, dmin);
      const std::byte* qs = in + 48 + 32 * (group / 2);
      const auto shift = static_cast<int>(4 * (group % 2));
      const auto bit = static_cast<int>(group);
      for (std::size_t j = 0; j < 32; ++j) {
        const int fifth = (std::to_integer<int>(qh[j]) >> bit) & 1;
        const int code = ((std::to_integer<int>(qs[j]) >> shift) & 15) | (fifth << 4);
        out[j] = scale * static_cast<float>(code) - minimum;
      }
    }
  }
}

// Two halves of 128 values, each four groups of 32 that share 64 bytes of nibbles and 32 bytes of
// bit pairs; every 16 values have a scale of their own.
void decode_q6_k(const std::byte* in, std::size_t blocks, float* out) {
  for (; blocks > 0; --blocks, in += 210) {
    const float d = half_at(in + 208);
    for (std::size_t half = 0; half < 2; ++half) {
      const std::byte* ql = in + 64 * half;
      const std::byte* qh = in + 128 + 32 * half;
      const std::byte* scales = in + 192 + 8 * half;
      for (std::size_t group = 0; group < 4; ++group) {
        const std::byte* low = ql + 32 * (group % 2);
        const auto low_shift = static_cast<int>(4 * (group / 2));
        const auto high_shift = static_cast<int>(2 * group);
        for (std::size_t part = 0; part < 2; ++part, out += 16) {
          const auto scale = std::to_integer<std::int8_t>(scales[2 * group + part]);
          const float step = d * static_cast<float>(scale);
          for (std::size_t j = 0; j < 16; ++j) {
            const std::size_t at = 16 * part + j;
            const int code = ((std::to_integer<int>(low[at]) >> low_shift) & 15) |
                             (((std::to_integer<int>(qh[at]) >> high_shift) & 3) << 4);
            out[j] = step * static_cast<float>(code - 32);
          }
        }
      }
    }
  }
}

constexpr GgmlType known(std::uint32_t id) {
  return static_cast<GgmlType>(id);
}

// Every type id of ggml with its sizes; those without a decoder are known so that a file's layout
// can be checked and a refusal can name them.
constexpr BlockFormat kFormats[] = {
    {GgmlType::f32, "F32", 1, 4, decode_f32},
    {GgmlType::f16, "F16", 1, 2, decode_f16},
    {GgmlType::bf16, "BF16", 1, 2, decode_bf16},
    {GgmlType::q4_0, "Q4_0", 32, 18, decode_q4_0},
    {GgmlType::q4_1, "Q4_1", 32, 20, decode_q4_1},
    {GgmlType::q5_0, "Q5_0", 32, 22, decode_q5_0},
    {GgmlType::q5_1, "Q5_1", 32, 24, decode_q5_1},
    {GgmlType::q8_0, "Q8_0", 32, 34, decode_q8_0},
    {GgmlType::q4_k, "Q4_K", 256, 144, decode_q4_k},
    {GgmlType::q5_k, "Q5_K", 256, 176, decode_q5_k},
    {GgmlType::q6_k, "Q6_K", 256, 210, decode_q6_k},
    {known(9), "Q8_1", 32, 36, nullptr},
    {known(10), "Q2_K", 256, 84, nullptr},
    {known(11), "Q3_K", 256, 110, nullptr},
    {known(15), "Q8_K", 256, 292, nullptr},
    {known(16), "IQ2_XXS", 256, 66, nullptr},
    {known(17), "IQ2_XS", 256, 74, nullptr},
    {known(18), "IQ3_XXS", 256, 98, nullptr},
    {known(19), "IQ1_S", 256, 50, nullptr},
    {known(20), "IQ4_NL", 32, 18, nullptr},
    {known(21), "IQ3_S", 256, 110, nullptr},
    {known(22), "IQ2_S", 256, 82, nullptr},
    {known(23), "IQ4_XS", 256, 136, nullptr},
    {known(24), "I8", 1, 1, nullptr},
    {known(25), "I16", 1, 2, nullptr},
    {known(26), "I32", 1, 4, nullptr},
    {known(27), "I64", 1, 8, nullptr},
    {known(28), "F64", 1, 8, nullptr},
    {known(29), "IQ1_M", 256, 56, nullptr},
    {known(34), "TQ1_0", 256, 54, nullptr},
    {known(35), "TQ2_0", 256, 66, nullptr},
    {known(39), "MXFP4", 32, 17, nullptr},
    {known(40), "NVFP4", 64, 36, nullptr},
    {known(41), "Q1_0", 128, 18, nullptr},
};

}  // namespace

const BlockFormat* find_format(GgmlType type) {
  const auto* const found =
      std::find_if(std::begin(kFormats), std::end(kFormats),
                   [type](const BlockFormat& format) { return format.type == type; });
  return found == std::end(kFormats) ? nullptr : found;
}

std::string type_name(GgmlType type) {
  const auto id = "type " + std::to_string(static_cast<std::uint32_t>(type));
  const BlockFormat* format = find_format(type);
  return format == nullptr ? id : std::string(format->name) + " (" + id + ")";
}

std::string decodable_types() {
  std::string names;
  for (const BlockFormat& format : kFormats) {
    if (format.decode == nullptr) continue;
    if (!names.empty()) names += ", ";
    names += format.name;
  }
  return names;
}

void dequantise(const StoredTensor& tensor, std::uint64_t first, std::span<float> out) {
  const BlockFormat* format = find_format(tensor.type);
  if (format == nullptr || format->decode == nullptr) {
    throw InputError(
        "tensor " + in_quotes(tensor.name) + " is stored as " + type_name(tensor.type) +
        ", which cannot be decoded; use a file whose tensors are of " + decodable_types());
  }
  if (first % format->values != 0 || out.size() % format->values != 0) {
    throw std::invalid_argument("values of tensor " + in_quotes(tensor.name) +
                                " are decoded in blocks of " + std::to_string(format->values));
  }
  const std::uint64_t first_block = first / format->values;
  const std::uint64_t blocks = out.size() / format->values;
  const std::uint64_t stored = tensor.data.size() / format->bytes;
  if (first_block > stored || blocks > stored - first_block) {
    throw std::invalid_argument("tensor " + in_quotes(tensor.name) + " has only " +
                                std::to_string(stored * format->values) + " values");
  }
  format->decode(tensor.data.data() + first_block * format->bytes, blocks, out.data());
}

}  // namespace kvreplay
