// Kernels run on the stream's thread, block by block.

#include <cstring>
#include <utility>

#include "tests/support/fake_cuda/control.h"
#include "tests/support/fake_cuda/entry_points.h"

namespace fake_cuda {
namespace {

struct KernelState {
  std::size_t argument_size = 0;
  fake_cuda_kernel body = nullptr;
};

using Kernels = std::map<std::string, KernelState>;

Kernels& registered() {
  static Kernels& all = *new Kernels;
  return all;
}

/// Each has kernels of its own, which are loaded by themselves.
struct LibraryState {
  Kernels kernels;
};
std::set<LibraryState*>& libraries = *new std::set<LibraryState*>;
std::atomic<std::uint64_t> kernels_run{0};
thread_local Result next_fault = Result::success;    // of this thread's next launch
thread_local Result failed = Result::success;        // of the kernel that this thread runs
thread_local const ContextState* running = nullptr;  // in which it runs that kernel

/// A fatbin, an ELF image, or PTX.
bool is_image(const void* image) {
  constexpr std::uint32_t fatbin = 0xba55ed50;
  return std::memcmp(image, &fatbin, sizeof fatbin) == 0 || std::memcmp(image, "\177ELF", 4) == 0 ||
         std::strstr(static_cast<const char*>(image), ".version") != nullptr;
}

KernelState* kernel_of(void* handle) {
  for (LibraryState* library : libraries)
    for (auto& [name, kernel] : library->kernels)
      if (&kernel == handle) return &kernel;
  return nullptr;
}

/// The first use of a kernel in a context waits for the device.
void load(Lock& lock, ContextState& context, void* kernel) {
  if (context.loaded.contains(kernel)) return;
  wait_for_device(lock, context, "the first use of a kernel");
  context.loaded.insert(kernel);
}

}  // namespace

void fail_next_kernel(Result result) { next_fault = result; }

Result cuLibraryLoadData(LibraryHandle* library, const void* image, int*, void**, unsigned, int*, void**, unsigned) {
  if (image == nullptr || !is_image(image)) return Result::invalid_image;
  const Lock lock{big};
  auto* const made = new LibraryState{registered()};
  libraries.insert(made);
  *library = made;
  return Result::success;
}

Result cuLibraryUnload(LibraryHandle library) {
  const Lock lock{big};
  auto* const state = static_cast<LibraryState*>(library);
  if (libraries.erase(state) == 0) return Result::invalid_handle;
  delete state;
  return Result::success;
}

Result cuLibraryGetKernel(Kernel* kernel, LibraryHandle library, const char* name) {
  const Lock lock{big};
  auto* const state = static_cast<LibraryState*>(library);
  if (!libraries.contains(state)) return Result::invalid_handle;
  const auto found = state->kernels.find(name);
  if (found == state->kernels.end()) return Result::not_found;
  *kernel = &found->second;
  return Result::success;
}

Result cuKernelGetFunction(void** function, Kernel kernel) {
  Lock lock{big};
  Result error;
  ContextState* const context = current(lock, error);
  if (context == nullptr) return error;
  if (kernel_of(kernel) == nullptr) return Result::invalid_handle;
  load(lock, *context, kernel);
  *function = kernel;
  return Result::success;
}

Result cuFuncGetAttribute(int* value, FunctionAttribute attribute, void* function) {
  const Lock lock{big};
  if (kernel_of(function) == nullptr) return Result::invalid_handle;
  *value = attribute == FunctionAttribute::registers ? 32 : attribute == FunctionAttribute::local_bytes ? 0 : 1024;
  return Result::success;
}

Result cuLaunchKernel(Kernel handle, unsigned blocks, unsigned y, unsigned z, unsigned threads, unsigned thread_y,
                      unsigned thread_z, unsigned shared, Stream to, void** parameters, void** extra) {
  Lock lock{big};
  Result error;
  ContextState* const context = current(lock, error);
  if (context == nullptr) return error;
  const KernelState* const kernel = kernel_of(handle);
  StreamState* const stream = stream_of(to, context);
  if (kernel == nullptr || stream == nullptr) return Result::invalid_handle;
  if (stream->capture && stream->capture->is_invalid) return Result::capture_invalidated;
  if (blocks == 0 || y != 1 || z != 1 || threads == 0 || threads > 1024 || thread_y != 1 || thread_z != 1 ||
      shared != 0 || extra != nullptr)
    return Result::invalid_value;
  load(lock, *stream->context, handle);
  const auto* const first = static_cast<const std::byte*>(parameters[0]);
  auto command = std::make_shared<Command>();
  command->kind = "kernel";
  command->run = [=, in = stream->context, fault = std::exchange(next_fault, Result::success), body = kernel->body,
                  argument = std::vector<std::byte>(first, first + kernel->argument_size)] {
    if (fault != Result::success) return fault;
    running = in;
    for (const unsigned block : order_of_blocks(blocks)) body(argument.data(), block, blocks, threads);
    kernels_run.fetch_add(1, std::memory_order_relaxed);
    kicks.fetch_add(1, std::memory_order_relaxed);
    return std::exchange(failed, Result::success);
  };
  enqueue(lock, *stream, std::move(command));
  return Result::success;
}

}  // namespace fake_cuda

extern "C" {

__attribute__((visibility("default"))) void fake_cuda_register_kernel(const char* name, std::size_t argument_size,
                                                                      fake_cuda_kernel body) {
  fake_cuda::registered()[name] = {argument_size, body};
}

__attribute__((visibility("default"))) int fake_cuda_can_reach(const void* address, std::size_t bytes) {
  const fake_cuda::Hidden hidden;
  const fake_cuda::Lock lock{fake_cuda::big};
  const fake_cuda::ContextState* const in = fake_cuda::running;
  return in != nullptr && fake_cuda::reach(reinterpret_cast<fake_cuda::Address>(address), bytes, *in) != nullptr;
}

__attribute__((visibility("default"))) void fake_cuda_fail_kernel(int result) {
  fake_cuda::failed = static_cast<fake_cuda::Result>(result);
}

__attribute__((visibility("default"))) std::uint64_t fake_cuda_kernels_run() { return fake_cuda::kernels_run; }
}
