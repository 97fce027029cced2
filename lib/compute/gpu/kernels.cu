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

struct ThreadBlock {
  __device__ unsigned blocks() const { return gridDim.x; }
  template <class Run>
  __device__ __forceinline__ void first(const Run& run) const {
    if (threadIdx.x == 0) run();
  }
  template <class Run>
  __device__ __forceinline__ void each(int count, const Run& run) const {
    if (static_cast<int>(threadIdx.x) < count) run(static_cast<int>(threadIdx.x));
  }
  __device__ void sync() const { __syncthreads(); }
};

/// All in the scope of the system, since peers are other GPUs, and words lie in memory of the host.
struct SystemWords {
  __device__ static std::uint64_t load(std::uint64_t address) {
    std::uint64_t value;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
  }
  __device__ static void store(std::uint64_t address, std::uint64_t value) {
    asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(address), "l"(value) : "memory");
  }
  __device__ static void pause() { asm volatile("nanosleep.u32 100;"); }
  __device__ static std::uint32_t ticket(std::uint64_t counter) {
    std::uint32_t before;
    asm volatile("atom.acq_rel.sys.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
  }
  /// Seen by the next kernel of the stream.
  __device__ static void reset(std::uint64_t counter) {
    asm volatile("st.relaxed.sys.u32 [%0], 0;" : : "l"(counter) : "memory");
  }
};

}  // namespace
}  // namespace tutti::compute::gpu

#include "lib/compute/gpu/kernels.inl"
#include "lib/compute/gpu/meeting.inl"

namespace tutti::compute::gpu {

#define TUTTI_KERNEL(name, ...)                                                              \
  extern "C" __global__ void __launch_bounds__(threads_per_block, blocks_per_multiprocessor) \
      tutti_##name(const __grid_constant__ FoldArguments arguments) {                        \
    if (arguments.meeting.count > 0) enter(arguments.meeting, ThreadBlock{}, SystemWords{}); \
    fold<__VA_ARGS__>(arguments, ThreadGrid{}, DeviceMemory{});                              \
    if (arguments.meeting.count > 0) leave(arguments.meeting, ThreadBlock{}, SystemWords{}); \
  }
#include "lib/compute/gpu/kernels.inc"

}  // namespace tutti::compute::gpu
