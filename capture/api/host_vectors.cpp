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

/// What lies in device memory, copied.
std::vector<std::byte> from_device(const void* data, std::size_t bytes) {
#ifdef KVREPLAY_CUDA
  std::vector<std::byte> copy(bytes);
  copy_from_device(data, copy);
  return copy;
#else
  static_cast<void>(data);
  static_cast<void>(bytes);
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
  const auto too_near = [&](std::size_t stride, std::uint32_t count) {
    return count > 1 && (stride < size || stride > kMost);
  };
  if (too_near(from.token_stride, tokens) || too_near(from.head_stride, heads)) {
    throw std::invalid_argument("strides of " + std::to_string(from.token_stride) +
                                " numbers a token and " + std::to_string(from.head_stride) +
                                " a head do not fit vectors of " + std::to_string(size));
  }
  const std::size_t last = (tokens - 1) * from.token_stride + (heads - 1) * from.head_stride + size;
  std::vector<std::byte> copy;
  const auto* numbers = static_cast<const std::byte*>(from.data);
  if (from.memory == KVREPLAY_DEVICE) {
    copy = from_device(from.data, last * number);
    numbers = copy.data();
  } else if (from.memory != KVREPLAY_HOST) {
    throw std::invalid_argument("memory of kind " + std::to_string(from.memory) +
                                " is not known; give KVREPLAY_HOST or KVREPLAY_DEVICE");
  }
  out.resize(std::size_t{tokens} * heads * size);
  float* next = out.data();
  for (std::uint32_t token = 0; token < tokens; ++token) {
    for (std::uint32_t head = 0; head < heads; ++head, next += size) {
      const std::size_t at = token * from.token_stride + head * from.head_stride;
      take_vector(numbers + at * number, from.type, size, next);
    }
  }
}

}  // namespace kvreplay
