#include "capture/cuda/cuda_device.hpp"

namespace kvreplay::cuda {
namespace {

cudaDeviceProp properties() {
  cudaDeviceProp found{};
  check(cudaGetDeviceProperties(&found, 0), "asking for the device's properties");
  return found;
}

}  // namespace

std::string why_no_runtime() {
  if (std::string none = why_no_device(); !none.empty()) return none;
  const cudaDeviceProp device = properties();
  constexpr int kOldest = 75;  // what the kernels are compiled for
  if (device.major * 10 + device.minor < kOldest)
    return std::string(device.name) + " has compute capability " + std::to_string(device.major) +
           "." + std::to_string(device.minor) + ", and the kernels need 7.5";
  return why_no_cublas();
}

CudaDevice::CudaDevice() : products_(computing_.get()) {
  const cudaDeviceProp device = properties();
  name_ = device.name;
  // Two blocks of 256 threads and their shared storage fit into a multiprocessor.
  blocks_at_once_ = 2 * static_cast<std::uint32_t>(device.multiProcessorCount);
  most_shared_bytes_ = device.sharedMemPerBlockOptin;
}

void CudaDevice::upload(void* to, std::span<const std::byte> bytes) {
  check(cudaMemcpyAsync(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, computing_.get()),
        "copying to the device");
  check(cudaStreamSynchronize(computing_.get()), "copying to the device");
}

CudaDevice::Download CudaDevice::download(std::byte* to, const std::byte* from, std::size_t bytes) {
  const Event computed = Event::make();
  check(cudaEventRecord(computed.get(), computing_.get()), "recording an event");
  check(cudaStreamWaitEvent(copying_.get(), computed.get()), "waiting for an event");
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, copying_.get()),
        "copying to the host");
  Event copied = Event::make();
  check(cudaEventRecord(copied.get(), copying_.get()), "recording an event");
  return Download(std::move(copied));
}

std::uint64_t CudaDevice::free_memory() const {
  std::size_t free = 0;
  std::size_t all = 0;
  check(cudaMemGetInfo(&free, &all), "asking for free memory");
  return free;
}

}  // namespace kvreplay::cuda
