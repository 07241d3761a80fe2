// What DeviceModel asks of a device, on the CPU: kernels by CpuBlock, products by Eigen. Memory is
// NaN until it is written, and a download copies when it is waited for, the latest that a device
// may do it: what is overwritten too early shows.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "capture/products.hpp"
#include "cpu_block.hpp"

namespace kvreplay::testing {

class CpuDevice {
  using Counter = std::atomic<std::uint64_t>;

 public:
  /// An array that counts into what its device has allocated.
  template <class T>
  class Memory {
   public:
    Memory() = default;
    Memory(std::size_t size, const std::shared_ptr<Counter>& counter)
        : bytes_(size * sizeof(T), kNanBytes),
          counted_(counter.get(), Uncount{counter, size * sizeof(T)}) {
      *counter += size * sizeof(T);
    }
    T* data() const { return bytes_.template as<T>(); }

   private:
    struct Uncount {
      std::shared_ptr<Counter> counter;
      std::size_t bytes = 0;
      void operator()(Counter* count) const { *count -= bytes; }
    };
    AlignedBytes bytes_;
    std::unique_ptr<Counter, Uncount> counted_;
  };
  using HostMemory = Memory<std::byte>;

  class Download {
   public:
    Download() = default;
    Download(std::byte* to, const std::byte* from, std::size_t bytes)
        : to_(to), from_(from), bytes_(bytes) {}
    void wait() {
      if (bytes_ > 0) std::memcpy(to_, from_, bytes_);
      bytes_ = 0;
    }

   private:
    std::byte* to_ = nullptr;
    const std::byte* from_ = nullptr;
    std::size_t bytes_ = 0;
  };

  template <class T>
  Memory<T> allocate(std::size_t count) {
    return {count, on_device_};
  }
  HostMemory host_memory(std::size_t bytes) { return {bytes, on_host_}; }
  void upload(void* to, std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  }
  template <class Kernel>
  void launch(const Kernel& kernel) {
    run_on_cpu(kernel, order);
  }
  void multiply(const Matrix& weight, Activations x, std::uint32_t tokens, Activations y,
                Store store) {
    kvreplay::multiply(weight, x, tokens, y, store);
  }
  Download download(std::byte* to, const std::byte* from, std::size_t bytes) {
    return {to, from, bytes};
  }
  std::uint32_t blocks_at_once() const { return blocks; }
  std::size_t most_shared_bytes() const { return shared_bytes; }
  std::string name() const { return "a CPU that plays a GPU"; }

  std::uint64_t bytes_on_device() const { return *on_device_; }
  std::uint64_t bytes_on_host() const { return *on_host_; }

  ThreadOrder order = ThreadOrder::ascending;
  std::uint32_t blocks = 12;
  std::size_t shared_bytes = 64 << 10;

 private:
  std::shared_ptr<Counter> on_device_ = std::make_shared<Counter>();
  std::shared_ptr<Counter> on_host_ = std::make_shared<Counter>();
};

}  // namespace kvreplay::testing
