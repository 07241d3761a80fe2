// A CUDA device: its memory, errors as exceptions, and launches of the kernels. Nothing here has
// been run on a GPU yet.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

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

/// Why no kernel can run here, in CUDA's words; empty where a device is there.
inline std::string why_no_device() {
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

/// Runs a kernel of this folder; returns once it is queued. kernels.cu lists those there are.
template <class Kernel>
void launch(const Kernel& kernel, Stream stream);

}  // namespace kvreplay::cuda
