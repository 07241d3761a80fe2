// A CUDA device as DeviceModel uses it: one stream computes, another copies to the host. Not run on
// a GPU yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "capture/cuda/cublas.hpp"
#include "capture/cuda/device.hpp"

namespace kvreplay::cuda {

/// Why no model can run on a device here, in few words; empty where one can.
std::string why_no_runtime();

/// The first device that CUDA shows (CUDA_VISIBLE_DEVICES).
class CudaDevice {
 public:
  template <class T>
  using Memory = Buffer<T>;
  using HostMemory = PinnedBuffer;

  /// Waits where it is not told to before it goes.
  class Download {
   public:
    Download() = default;
    explicit Download(Event done) : done_(std::move(done)) {}
    Download(Download&&) = default;
    Download& operator=(Download&&) = default;
    ~Download() {
      if (done_) cudaEventSynchronize(done_.get());
    }
    /// From any thread.
    void wait() {
      if (done_) check(cudaEventSynchronize(done_.get()), "copying to the host");
      done_ = {};
    }

   private:
    Event done_;
  };

  /// Throws Error.
  CudaDevice();

  template <class T>
  Memory<T> allocate(std::size_t count) {
    return Memory<T>(count);
  }
  HostMemory host_memory(std::size_t bytes) { return HostMemory(bytes); }
  void upload(void* to, std::span<const std::byte> bytes);
  template <class Kernel>
  void launch(const Kernel& kernel) {
    cuda::launch(kernel, computing_.get());
  }
  void multiply(const Matrix& weight, Activations x, std::uint32_t tokens, Activations y,
                Store store) {
    products_.multiply(weight, x, tokens, y, store);
  }
  Download download(std::byte* to, const std::byte* from, std::size_t bytes);

  std::uint32_t blocks_at_once() const { return blocks_at_once_; }
  std::size_t most_shared_bytes() const { return most_shared_bytes_; }
  const std::string& name() const { return name_; }
  /// Of the device's memory, now.
  std::uint64_t free_memory() const;
  Stream computing() const { return computing_.get(); }
  Stream copying() const { return copying_.get(); }

 private:
  OwnStream computing_;
  OwnStream copying_;
  Cublas products_;
  std::string name_;
  std::uint32_t blocks_at_once_ = 0;
  std::size_t most_shared_bytes_ = 0;
};

}  // namespace kvreplay::cuda
