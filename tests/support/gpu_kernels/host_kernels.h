#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/compute/gpu/arguments.h"

namespace tutti::testing {

/// A kernel of lib/compute/gpu, compiled for the host from the same source.
struct HostKernel {
  const char* name;  // in the image
  /// What one of `threads` threads does; their order does not matter. A byte at address a is read and written at
  /// a + alias. An address that is not a multiple of its element's size ends the program, as it would fail on a GPU.
  void (*run)(const compute::gpu::FoldArguments& arguments, std::uint64_t thread, std::uint64_t threads,
              std::ptrdiff_t alias);
};

/// How a block of any kernel begins, and ends, if it meets other ranks (lib/compute/gpu/meeting.inl). Addresses are
/// those of the host.
void enter_block(const compute::gpu::Meeting& meeting, unsigned blocks);
void leave_block(const compute::gpu::Meeting& meeting, unsigned blocks);

/// Null if there is none of that name.
const HostKernel* host_kernel(std::string_view name);

}  // namespace tutti::testing
