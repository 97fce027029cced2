#include "lib/compute/kernels.inl"

namespace tutti::compute {

extern constexpr Kernels f16_kernels_avx512fp16 = half_float<CombinedF16s, F16s, 0x7c00>();

}  // namespace tutti::compute
