// A large array of floats on huge pages: touched once, kept, reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace kvreplay {

class FloatBuffer {
 public:
  FloatBuffer() = default;
  /// Uninitialised, 64-byte aligned. Throws OutOfMemory naming `purpose` where the machine
  /// has no such memory.
  FloatBuffer(std::uint64_t values, const char* purpose);

  float* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::span<float> span() const { return {data(), size()}; }

 private:
  struct Free {
    void operator()(float* data) const;
  };
  std::unique_ptr<float, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace kvreplay
