// The library's kernels for the fake driver, compiled for the host from the same source. A real driver runs those of
// the image.

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "lib/compute/gpu/table.h"
#include "tests/support/fake_cuda/control.h"
#include "tests/support/gpu_kernels/host_kernels.h"

namespace tutti::testing {
namespace {

using compute::gpu::FoldArguments;

void* (*reach)(const void*) = nullptr;

template <std::size_t index>
void run_block(const void* argument, unsigned block, unsigned blocks, unsigned threads) {
  static const HostKernel& kernel = *host_kernel(compute::gpu::kernels()[index].name);
  FoldArguments arguments = *static_cast<const FoldArguments*>(argument);
  // Some may be in pinned memory of the host.
  const auto reached = [](std::uint64_t address) {
    return reinterpret_cast<std::uint64_t>(reach(reinterpret_cast<const void*>(address)));
  };
  std::ranges::transform(arguments.inputs, arguments.inputs, reached);
  std::ranges::transform(arguments.outputs, arguments.outputs, reached);
  for (std::uint64_t thread = 0; thread < threads; ++thread)
    kernel.run(arguments, std::uint64_t{block} * threads + thread, std::uint64_t{blocks} * threads, 0);
}

/// The table is a constant of another file, so its size is stated, and checked.
constexpr std::size_t kernel_count = 108;

template <std::size_t... index>
constexpr std::array<fake_cuda_kernel, kernel_count> bodies(std::index_sequence<index...>) {
  return {run_block<index>...};
}

/// When the program starts.
const bool registered = [] {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  const auto add =
      reinterpret_cast<decltype(&fake_cuda_register_kernel)>(::dlsym(library, "fake_cuda_register_kernel"));
  if (!add) return false;
  reach = reinterpret_cast<decltype(&fake_cuda_reach)>(::dlsym(library, "fake_cuda_reach"));
  if (compute::gpu::kernels().size() != kernel_count) std::abort();
  constexpr auto all = bodies(std::make_index_sequence<kernel_count>{});
  for (std::size_t i = 0; i < kernel_count; ++i) add(compute::gpu::kernels()[i].name, sizeof(FoldArguments), all[i]);
  return true;
}();

}  // namespace
}  // namespace tutti::testing
