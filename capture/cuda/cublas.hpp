// Products by cuBLAS in fp32. The library, 600 MB with its own, is opened when a device is used and
// not when the program starts: it runs where cuBLAS is not installed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "capture/cuda/device.hpp"
#include "capture/products.hpp"

namespace kvreplay::cuda {

/// Why cuBLAS cannot be used here; empty where it can.
std::string why_no_cublas();

class Cublas {
 public:
  /// Works on the current device and queues on `stream`. Throws Error.
  explicit Cublas(Stream stream);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  /// Queues y [tokens, out] = or += x [tokens, in] * weight^T, without TF32 or any other shortcut.
  void multiply(const Matrix& weight, Activations x, std::uint32_t tokens, Activations y,
                Store store) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvreplay::cuda
