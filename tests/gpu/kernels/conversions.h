#pragma once

#include <cstdint>

namespace tutti::testing {

/// What both kernels in conversions.cu take: the numbers with the bit patterns `first` to `first + count - 1`.
struct ConversionArguments {
  std::uint64_t first;
  std::uint64_t count;
  std::uint64_t f16;  // where the results go: of `narrow` halves, of `widen` floats
  std::uint64_t bf16;
};

}  // namespace tutti::testing
