// What f16 and bf16 become in the kernels, for every bit pattern.

#include "lib/compute/gpu/native.inl"
#include "tests/gpu/kernels/conversions.h"

namespace tutti::testing {

template <class Body>
__device__ void for_each(const ConversionArguments& a, Body body) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < a.count; i += stride)
    body(i, static_cast<std::uint32_t>(a.first + i));
}

extern "C" __global__ void narrow(const __grid_constant__ ConversionArguments a) {
  for_each(a, [&](std::uint64_t i, std::uint32_t bits) {
    const float value = half::float_of(bits);
    reinterpret_cast<std::uint16_t*>(a.f16)[i] = compute::gpu::NativeF16::store(value);
    reinterpret_cast<std::uint16_t*>(a.bf16)[i] = compute::gpu::NativeBf16::store(value);
  });
}

extern "C" __global__ void widen(const __grid_constant__ ConversionArguments a) {
  for_each(a, [&](std::uint64_t i, std::uint32_t bits) {
    reinterpret_cast<float*>(a.f16)[i] = compute::gpu::NativeF16::load(static_cast<std::uint16_t>(bits));
    reinterpret_cast<float*>(a.bf16)[i] = compute::gpu::NativeBf16::load(static_cast<std::uint16_t>(bits));
  });
}

}  // namespace tutti::testing
