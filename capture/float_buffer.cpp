#include "capture/float_buffer.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>

#include "traces/out_of_memory.hpp"
#include "traces/size_text.hpp"

namespace kvreplay {

namespace {
constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
constexpr std::uint64_t kCacheLine = 64;
constexpr std::uint64_t kMostValues = std::numeric_limits<std::uint64_t>::max() / sizeof(float);
}  // namespace

FloatBuffer::FloatBuffer(std::uint64_t values, const char* purpose) : size_(values) {
  const std::uint64_t alignment = values >= kHugePage / sizeof(float) ? kHugePage : kCacheLine;
  void* data = nullptr;
  std::uint64_t bytes = 0;
  if (!__builtin_mul_overflow(values, sizeof(float), &bytes) &&
      !__builtin_add_overflow(bytes, alignment - 1, &bytes)) {
    bytes = std::max(bytes / alignment * alignment, alignment);
    data = std::aligned_alloc(alignment, bytes);
  }
  if (data == nullptr)
    throw OutOfMemory("not enough memory for " + std::string(purpose) + " (" +
                      size_text(std::min(values, kMostValues) * sizeof(float)) +
                      "); end other programs, or take fewer tokens or a smaller model");
  data_.reset(static_cast<float*>(data));
  // Fewer page faults and TLB misses; where the kernel refuses, small pages do.
  if (alignment == kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
}

void FloatBuffer::Free::operator()(float* data) const {
  std::free(data);
}

}  // namespace kvreplay
