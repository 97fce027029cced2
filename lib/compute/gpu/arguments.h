#pragma once

#include <cstddef>
#include <cstdint>

// What a kernel is told; also compiled for GPUs.

namespace tutti::compute::gpu {

inline constexpr int most_inputs = 16;
inline constexpr int most_outputs = 16;
inline constexpr unsigned threads_per_block = 512;
inline constexpr unsigned blocks_per_multiprocessor = 2;  // have room at the same time, at least: 64 registers a thread

/// The only parameter of every kernel: element i of all outputs becomes the left fold of element i of the inputs.
///
/// An address is a multiple of the size of its elements (of half of it, if they are complex), and of 16 for speed. An
/// output may be an input, else it is apart from it.
struct FoldArguments {
  std::uint64_t inputs[most_inputs];
  std::uint64_t outputs[most_outputs];
  std::int32_t input_count;   // at least 1
  std::int32_t output_count;  // at least 1
  std::uint64_t count;        // elements
  double factor;              // of contributions: see compute::Average, and premul_sum
  double divisor;             // of the sum: see compute::Average
};

}  // namespace tutti::compute::gpu
