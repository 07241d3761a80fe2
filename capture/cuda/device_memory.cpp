#include "capture/cuda/device_memory.hpp"

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace kvreplay {

void copy_from_device(const std::byte* from, std::size_t stride, std::size_t bytes,
                      std::size_t rows, std::byte* to) {
  // Of one row the stride means nothing, and CUDA asks for one that is no less than the row.
  const cudaError_t outcome = cudaMemcpy2D(to, bytes, from, rows == 1 ? bytes : stride, bytes, rows,
                                           cudaMemcpyDeviceToHost);
  if (outcome != cudaSuccess) {
    throw std::runtime_error(std::string("copying vectors to the host failed: ") +
                             cudaGetErrorString(outcome));
  }
}

}  // namespace kvreplay
