#include "capture/cuda/device_memory.hpp"

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace kvreplay {

void copy_from_device(const void* from, std::span<std::byte> to) {
  const cudaError_t outcome = cudaMemcpy(to.data(), from, to.size(), cudaMemcpyDeviceToHost);
  if (outcome != cudaSuccess) {
    throw std::runtime_error(std::string("copying vectors to the host failed: ") +
                             cudaGetErrorString(outcome));
  }
}

}  // namespace kvreplay
