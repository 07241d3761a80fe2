// What CUDA gives, owned: memory, streams, events; errors as exceptions, and launches of the
// kernels. Nothing here has been run on a GPU yet.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace kvreplay::cuda {

using Stream = cudaStream_t;

/// What the device or its driver refused.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws Error with CUDA's own words where `status` is one.
inline void check(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  throw Error(std::string("CUDA, ") + doing + ": " + cudaGetErrorString(status));
}

/// Why no kernel can run here; empty where a device is there.
inline std::string why_no_device() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
    return "there is no NVIDIA driver";  // of which CUDA says that it is too old
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  return devices > 0 ? "" : "there is no CUDA device";
}

/// `size` values of T in the device's memory, not set.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) : size_(size) {
    void* data = nullptr;
    if (size > 0) check(cudaMalloc(&data, size * sizeof(T)), "allocating device memory");
    data_.reset(static_cast<T*>(data));
  }

  T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

  /// Both wait until the copy is done.
  void upload(std::span<const T> values) {
    check_size(values.size());
    check(cudaMemcpy(data(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice),
          "copying to the device");
  }
  void download(std::span<T> values) const {
    check_size(values.size());
    check(cudaMemcpy(values.data(), data(), values.size_bytes(), cudaMemcpyDeviceToHost),
          "copying from the device");
  }
  /// Sets every byte.
  void fill(int byte) {
    if (size_ > 0) check(cudaMemset(data(), byte, size_ * sizeof(T)), "filling device memory");
  }

 private:
  void check_size(std::size_t size) const {
    if (size > size_) throw std::invalid_argument("more values than the device buffer has");
  }

  struct Free {
    void operator()(T* data) const { cudaFree(data); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

/// Bytes of the host's memory that devices copy to by themselves, not set.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(std::size_t size) {
    void* data = nullptr;
    if (size > 0)
      check(cudaHostAlloc(&data, size, cudaHostAllocDefault), "allocating pinned memory");
    data_.reset(static_cast<std::byte*>(data));
  }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const { cudaFreeHost(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

/// A stream that does not wait for the default one.
class OwnStream {
 public:
  OwnStream() {
    Stream stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    stream_.reset(stream);
  }
  Stream get() const { return stream_.get(); }

 private:
  struct Destroy {
    void operator()(Stream stream) const { cudaStreamDestroy(stream); }
  };
  std::unique_ptr<std::remove_pointer_t<Stream>, Destroy> stream_;
};

/// An event, or none.
class Event {
 public:
  Event() = default;
  /// Whoever waits for it sleeps; one that is `timed` can be asked for its time.
  static Event make(bool timed = false) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(
              &event, cudaEventBlockingSync | (timed ? cudaEventDefault : cudaEventDisableTiming)),
          "creating an event");
    Event made;
    made.event_.reset(event);
    return made;
  }
  cudaEvent_t get() const { return event_.get(); }
  explicit operator bool() const { return event_ != nullptr; }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy> event_;
};

/// Runs a kernel of this folder; returns once it is queued. kernels.cu lists those there are.
template <class Kernel>
void launch(const Kernel& kernel, Stream stream);

}  // namespace kvreplay::cuda
