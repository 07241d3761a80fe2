// The kernels as a device runs them: a thread is a thread, a phase ends in a barrier.
#include <string>

#include "capture/cuda/attention.hpp"
#include "capture/cuda/device.hpp"
#include "capture/cuda/elementwise.hpp"
#include "capture/cuda/layer_norm.hpp"
#include "capture/cuda/record.hpp"
#include "capture/cuda/recorded_sums.hpp"
#include "capture/cuda/rms_norm.hpp"

namespace kvreplay::cuda {
namespace {

// 48 KiB are there without asking.
constexpr std::size_t kSharedUnasked = 48 << 10;

extern __shared__ Line<unsigned char> shared_pool[];

class DeviceBlock {
 public:
  __device__ Grid index() const { return {blockIdx.x, blockIdx.y, blockIdx.z}; }

  template <class Function>
  __device__ void phase(const Function& function) const {
    function(threadIdx.x);
    __syncthreads();
  }

  template <class T>
  __device__ T* shared(std::uint32_t count) {
    T* storage = reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(shared_pool) + taken_);
    taken_ += shared_size<T>(count);
    return storage;
  }

  template <class T>
  struct Local {
    T value;
    __device__ T& operator[](std::uint32_t) { return value; }
  };
  template <class T>
  __device__ Local<T> local() const {
    return {};
  }

 private:
  std::size_t taken_ = 0;
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads) run(const __grid_constant__ Kernel kernel) {
  DeviceBlock block;
  kernel(block);
}

}  // namespace

template <class Kernel>
void launch(const Kernel& kernel, Stream stream) {
  const Grid grid = kernel.grid();
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const std::size_t shared = kernel.shared_bytes();
  if (shared > kSharedUnasked)
    check(cudaFuncSetAttribute(run<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared)),
          "asking for shared memory");
  run<<<dim3(grid.x, grid.y, grid.z), Kernel::kThreads, shared, stream>>>(kernel);
  check(cudaGetLastError(), "launching a kernel");
}

template void launch(const Gather&, Stream);
template void launch(const Activate&, Stream);
template void launch(const AddRows&, Stream);
template void launch(const Rope&, Stream);
template void launch(const RmsNorm&, Stream);
template void launch(const LayerNorm&, Stream);
template void launch(const Attend<64, 64>&, Stream);
template void launch(const Attend<64, 128>&, Stream);
template void launch(const Attend<16, 64>&, Stream);
template void launch(const Attend<16, 128>&, Stream);
template void launch(const Attend<16, 256>&, Stream);
template void launch(const MergeAttention&, Stream);
template void launch(const RecordRows<64, Fp16Code>&, Stream);
template void launch(const RecordRows<64, Fp32Code>&, Stream);
template void launch(const RecordRows<64, U16LogCode>&, Stream);
template void launch(const RecordRows<16, Fp16Code>&, Stream);
template void launch(const RecordRows<16, Fp32Code>&, Stream);
template void launch(const RecordRows<16, U16LogCode>&, Stream);
template void launch(const SumColumns&, Stream);
template void launch(const SumRows&, Stream);

}  // namespace kvreplay::cuda
