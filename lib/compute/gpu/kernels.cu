// The kernels as nvcc compiles them. Nothing is fused (-fmad=false): a product is rounded before it is added, as on the
// CPU.

#define TUTTI_GPU_FUNCTION __device__ __forceinline__
#define TUTTI_F16 NativeF16
#define TUTTI_BF16 NativeBf16

#include "lib/compute/gpu/native.inl"

namespace tutti::compute::gpu {
namespace {

struct ThreadGrid {
  __device__ std::uint64_t index() const { return blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; }
  __device__ std::uint64_t stride() const { return std::uint64_t{gridDim.x} * blockDim.x; }
};

struct DeviceMemory {
  template <class T>
  __device__ __forceinline__ T load(std::uint64_t address, std::uint64_t i) const {
    return reinterpret_cast<const T*>(address)[i];
  }
  template <class T>
  __device__ __forceinline__ void store(std::uint64_t address, std::uint64_t i, const T& value) const {
    reinterpret_cast<T*>(address)[i] = value;
  }
};

}  // namespace
}  // namespace tutti::compute::gpu

#include "lib/compute/gpu/kernels.inl"

namespace tutti::compute::gpu {

#define TUTTI_KERNEL(name, ...)                                                                       \
  extern "C" __global__ void __launch_bounds__(threads_per_block, blocks_per_multiprocessor)          \
      tutti_##name(const __grid_constant__ FoldArguments arguments) {                                 \
    fold<__VA_ARGS__>(arguments, ThreadGrid{}, DeviceMemory{});                                       \
  }
#include "lib/compute/gpu/kernels.inc"

}  // namespace tutti::compute::gpu
