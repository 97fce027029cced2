// The elements f16 and bf16 with conversions by instructions of the GPU; those of elements.inl would take f16 70
// instructions each, for which there is no time between two loads. They round alike, and a NaN becomes the same.

#pragma once

#include "lib/compute/elements.inl"

namespace tutti::compute::gpu {
namespace {

struct NativeF16 {
  using Stored = std::uint16_t;
  __device__ __forceinline__ static float load(Stored bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
  __device__ __forceinline__ static Stored store(float value) {
    Stored bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return value != value ? 0xffff : bits;
  }
};

struct NativeBf16 {
  using Stored = std::uint16_t;
  __device__ __forceinline__ static float load(Stored bits) { return Bf16::load(bits); }
  __device__ __forceinline__ static Stored store(float value) {
#if __CUDA_ARCH__ >= 800
    Stored bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return value != value ? 0xffff : bits;
#else
    return Bf16::store(value);
#endif
  }
};

}  // namespace
}  // namespace tutti::compute::gpu
