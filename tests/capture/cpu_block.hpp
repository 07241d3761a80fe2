// Runs a kernel on the CPU, thread after thread between barriers, so that it can be looked at with
// everything there is for programs: what is read before it is written is NaN, every array lies
// alone for the address sanitizer, and the order of threads can be turned round.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "capture/cuda/block.hpp"

namespace kvreplay::testing {

/// Results must not depend on it: within a phase no thread waits for another.
enum class ThreadOrder { ascending, descending };

/// Exactly so many bytes at a multiple of 16, all set to `fill`.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  AlignedBytes(std::size_t size, int fill)
      : data_(static_cast<std::byte*>(::operator new (size, std::align_val_t{16}))) {
    if (size > 0) std::memset(data_.get(), fill, size);
  }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{16}); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

constexpr int kNanBytes = 0xFF;

class CpuBlock {
 public:
  CpuBlock(cuda::Grid index, std::uint32_t threads, ThreadOrder order)
      : index_(index), threads_(threads), order_(order) {}

  cuda::Grid index() const { return index_; }

  template <class Function>
  void phase(const Function& function) {
    for (std::uint32_t i = 0; i < threads_; ++i)
      function(order_ == ThreadOrder::ascending ? i : threads_ - 1 - i);
  }

  template <class T>
  T* shared(std::uint32_t count) {
    shared_bytes_ += cuda::shared_size<T>(count);
    return shared_.emplace_back(count * sizeof(T), kNanBytes).as<T>();
  }

  template <class T>
  class Local {
   public:
    explicit Local(std::uint32_t threads) : bytes_(threads * sizeof(T), kNanBytes) {}
    T& operator[](std::uint32_t thread) { return bytes_.as<T>()[thread]; }

   private:
    AlignedBytes bytes_;
  };
  template <class T>
  Local<T> local() {
    return Local<T>(threads_);
  }

  std::size_t shared_bytes() const { return shared_bytes_; }

 private:
  cuda::Grid index_;
  std::uint32_t threads_;
  ThreadOrder order_;
  std::vector<AlignedBytes> shared_;
  std::size_t shared_bytes_ = 0;
};

template <class Kernel>
void run_on_cpu(const Kernel& kernel, ThreadOrder order) {
  const cuda::Grid grid = kernel.grid();
  for (std::uint32_t z = 0; z < grid.z; ++z)
    for (std::uint32_t y = 0; y < grid.y; ++y)
      for (std::uint32_t x = 0; x < grid.x; ++x) {
        CpuBlock block({x, y, z}, Kernel::kThreads, order);
        kernel(block);
        if (block.shared_bytes() != kernel.shared_bytes())
          throw std::logic_error("a kernel takes more or less shared storage than it says");
      }
}

/// Memory and launches as a device has them.
class CpuMachine {
 public:
  explicit CpuMachine(ThreadOrder order = ThreadOrder::ascending) : order_(order) {}

  template <class T>
  T* put(const std::vector<T>& values) {
    T* copy = room<T>(values.size());
    if (!values.empty()) std::memcpy(copy, values.data(), values.size() * sizeof(T));
    return copy;
  }
  /// Every byte is `fill`.
  template <class T>
  T* room(std::size_t count, int fill = kNanBytes) {
    return buffers_.emplace_back(count * sizeof(T), fill).as<T>();
  }
  template <class T>
  std::vector<T> get(const T* from, std::size_t count) {
    return {from, from + count};
  }

  template <class Kernel>
  void run(const Kernel& kernel) {
    run_on_cpu(kernel, order_);
  }

 private:
  ThreadOrder order_;
  std::vector<AlignedBytes> buffers_;
};

}  // namespace kvreplay::testing
