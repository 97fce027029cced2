#include "lib/compute/kernels.inl"

namespace tutti::compute {

extern constexpr Kernels f16_kernels_avx512fp16 = f16_kernels<CombinedF16s>();

}  // namespace tutti::compute
