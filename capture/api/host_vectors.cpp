#include "capture/api/host_vectors.hpp"

#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "traces/half.hpp"
#ifdef KVREPLAY_CUDA
#include "capture/cuda/device_memory.hpp"
#endif

namespace kvreplay {
namespace {

std::size_t bytes_of(int type) {
  switch (type) {
    case KVREPLAY_F32:
      return 4;
    case KVREPLAY_F16:
    case KVREPLAY_BF16:
      return 2;
    default:
      throw std::invalid_argument("vectors of type " + std::to_string(type) +
                                  " are not known; give KVREPLAY_F32, _F16 or _BF16");
  }
}

std::uint16_t bits_at(const std::byte* numbers, std::size_t at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, numbers + 2 * at, sizeof bits);
  return bits;
}

void take_vector(const std::byte* numbers, int type, std::uint32_t size, float* out) {
  if (type == KVREPLAY_F32) {
    std::memcpy(out, numbers, size * sizeof(float));
  } else if (type == KVREPLAY_F16) {
    for (std::uint32_t at = 0; at < size; ++at) out[at] = float_from_half(bits_at(numbers, at));
  } else {
    for (std::uint32_t at = 0; at < size; ++at) {
      out[at] = std::bit_cast<float>(std::uint32_t{bits_at(numbers, at)} << 16);
    }
  }
}

/// What lies in device memory, copied: its vectors behind one another.
std::vector<std::byte> from_device([[maybe_unused]] const kvreplay_vectors& from,
                                   [[maybe_unused]] std::uint32_t tokens,
                                   [[maybe_unused]] std::uint32_t heads,
                                   [[maybe_unused]] std::size_t vector_bytes) {
#ifdef KVREPLAY_CUDA
  const std::size_t number = bytes_of(from.type);
  std::vector<std::byte> copy(tokens * heads * vector_bytes);
  const auto* const data = static_cast<const std::byte*>(from.data);
  if (from.head_stride * number == vector_bytes || heads == 1) {
    copy_from_device(data, from.token_stride * number, heads * vector_bytes, tokens, copy.data());
    return copy;
  }
  for (std::uint32_t token = 0; token < tokens; ++token) {
    copy_from_device(data + token * from.token_stride * number, from.head_stride * number,
                     vector_bytes, heads, copy.data() + token * heads * vector_bytes);
  }
  return copy;
#else
  throw std::invalid_argument(
      "vectors are in device memory, and this libkvreplay was built without CUDA; copy them to the "
      "host first");
#endif
}

}  // namespace

void take_vectors(const kvreplay_vectors& from, std::uint32_t tokens, std::uint32_t heads,
                  std::uint32_t size, std::vector<float>& out) {
  if (from.data == nullptr) throw std::invalid_argument("vectors are missing");
  const std::size_t number = bytes_of(from.type);
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 8 / (1U << 24);
  // Whether what is `stride` apart has room for `length` numbers.
  const auto apart = [](std::uint32_t count, std::size_t stride, std::size_t length) {
    return count <= 1 || (stride >= length && stride <= kMost);
  };
  const std::size_t of_heads = heads > 1 ? (heads - 1) * from.head_stride + size : size;
  const std::size_t of_tokens = tokens > 1 ? (tokens - 1) * from.token_stride + size : size;
  const bool heads_within =
      apart(heads, from.head_stride, size) && apart(tokens, from.token_stride, of_heads);
  const bool tokens_within =
      apart(tokens, from.token_stride, size) && apart(heads, from.head_stride, of_tokens);
  if (!heads_within && !tokens_within) {
    throw std::invalid_argument("strides of " + std::to_string(from.token_stride) +
                                " numbers a token and " + std::to_string(from.head_stride) +
                                " a head do not fit vectors of " + std::to_string(size));
  }
  std::vector<std::byte> copy;
  const auto* numbers = static_cast<const std::byte*>(from.data);
  std::size_t token_stride = from.token_stride;
  std::size_t head_stride = from.head_stride;
  if (from.memory == KVREPLAY_DEVICE) {
    copy = from_device(from, tokens, heads, size * number);
    numbers = copy.data();
    token_stride = std::size_t{heads} * size;
    head_stride = size;
  } else if (from.memory != KVREPLAY_HOST) {
    throw std::invalid_argument("memory of kind " + std::to_string(from.memory) +
                                " is not known; give KVREPLAY_HOST or KVREPLAY_DEVICE");
  }
  out.resize(std::size_t{tokens} * heads * size);
  float* next = out.data();
  for (std::uint32_t token = 0; token < tokens; ++token) {
    for (std::uint32_t head = 0; head < heads; ++head, next += size) {
      const std::size_t at = token * token_stride + head * head_stride;
      take_vector(numbers + at * number, from.type, size, next);
    }
  }
}

}  // namespace kvreplay
