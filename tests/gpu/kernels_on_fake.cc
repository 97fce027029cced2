// The library's kernels for the fake driver, compiled for the host from the same source. A real driver runs those of
// the image.

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>

#include "lib/compute/gpu/table.h"
#include "tests/support/fake_cuda/control.h"
#include "tests/support/gpu_kernels/host_kernels.h"

namespace tutti::testing {
namespace {

using compute::gpu::FoldArguments;

void* (*reach)(const void*) = nullptr;
decltype(&fake_cuda_note_use) note_use = nullptr;

/// All elements of each input and output, once per launch.
void note(const FoldArguments& arguments, std::size_t element) {
  const auto one = [&](std::uint64_t address, int is_write) {
    note_use(reinterpret_cast<const void*>(address), arguments.count * element, is_write);
  };
  for (std::int32_t i = 0; i < arguments.input_count; ++i) one(arguments.inputs[i], 0);
  for (std::int32_t i = 0; i < arguments.output_count; ++i) one(arguments.outputs[i], 1);
}

template <std::size_t index>
void run_block(const void* argument, unsigned block, unsigned blocks, unsigned threads) {
  static const HostKernel& kernel = *host_kernel(compute::gpu::kernels()[index].name);
  FoldArguments arguments = *static_cast<const FoldArguments*>(argument);
  if (block == 0) note(arguments, std::size_t{16} / static_cast<unsigned>(compute::gpu::kernels()[index].lanes));
  // Some may be in pinned memory of the host.
  const auto reached = [](std::uint64_t address) {
    return reinterpret_cast<std::uint64_t>(reach(reinterpret_cast<const void*>(address)));
  };
  std::ranges::transform(arguments.inputs, arguments.inputs, reached);
  std::ranges::transform(arguments.outputs, arguments.outputs, reached);
  compute::gpu::Meeting& meeting = arguments.meeting;
  if (meeting.count > 0) {
    meeting.tickets = reached(meeting.tickets);
    for (compute::gpu::Meeting::Peer& peer : std::span{meeting.peers, static_cast<std::size_t>(meeting.count)})
      peer.own = reached(peer.own), peer.at_peer = reached(peer.at_peer);
    enter_block(meeting, blocks);
  }
  for (std::uint64_t thread = 0; thread < threads; ++thread)
    kernel.run(arguments, std::uint64_t{block} * threads + thread, std::uint64_t{blocks} * threads, 0);
  if (meeting.count > 0) leave_block(meeting, blocks);
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
  note_use = reinterpret_cast<decltype(note_use)>(::dlsym(library, "fake_cuda_note_use"));
  if (compute::gpu::kernels().size() != kernel_count) std::abort();
  constexpr auto all = bodies(std::make_index_sequence<kernel_count>{});
  for (std::size_t i = 0; i < kernel_count; ++i) add(compute::gpu::kernels()[i].name, sizeof(FoldArguments), all[i]);
  return true;
}();

}  // namespace
}  // namespace tutti::testing
