#pragma once

#include <cstdint>
#include <span>

#include "lib/compute/gpu/arguments.h"
#include "tutti/types.h"

// Which kernel of a GPU computes what, and how it is launched. All take a FoldArguments as their only parameter; the
// machine code is in image.h.

namespace tutti::compute::gpu {

/// What is computed on the way from the elements of all ranks to the result. For most ops all is one thing, and only
/// premul_sum and avg distinguish contributions, and sums of them, from elements (see compute::Average). Sums have
/// Average::size bytes for avg, else they have the type of elements.
enum class Step : std::uint8_t {
  begin,       ///< elements in, the sum of their contributions out
  contribute,  ///< a sum and elements in, the sum with their contributions out
  combine,     ///< sums in, their sum out
  finish,      ///< sums in, the result out
  whole,       ///< the elements of all ranks in, the result out
};
inline constexpr int step_count = 5;

struct Kernel {
  const char* name;  ///< in the image, with a null behind it
  int index;         ///< in kernels()
  int lanes;         ///< elements that a thread takes at once if all addresses are multiples of 16
};

/// All in the image.
std::span<const Kernel> kernels();

struct Choice {
  const Kernel* kernel = nullptr;  ///< null: there is none, and nothing to do unless the step is `whole`
  unsigned parts = 1;  ///< elements of the kernel in one of the type: FoldArguments::count is that many times larger
};

/// The kernel of a step. There is one for `whole` exactly if supports(type, op) and op is not `user`; such an op has no
/// `begin` or `finish` if contributions are elements, or sums the result.
Choice choose(DataType type, OpKind op, Step step);

struct Blocks {
  unsigned blocks;
  unsigned threads;  ///< of each
};
/// How a kernel is launched for FoldArguments::count elements. It would be right with any number of blocks; with these,
/// the device is filled once, and each thread goes on to its next elements.
Blocks blocks_for(const Kernel& kernel, std::uint64_t count, int multiprocessors);

}  // namespace tutti::compute::gpu
