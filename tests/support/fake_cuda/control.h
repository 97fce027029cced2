#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/gpu/driver_types.h"

// What the fake exports beside CUDA's functions. Programs find these by dlsym() in the loaded libcuda.so.1; a real
// driver has none of them.

extern "C" {

/// Runs one block of a kernel on the host. `argument` is a copy of the kernel's only parameter.
using fake_cuda_kernel = void (*)(const void* argument, unsigned block, unsigned blocks, unsigned threads);

/// The kernel of this name, in whatever image it is looked for, has a parameter of this number of bytes and this body.
void fake_cuda_register_kernel(const char* name, std::size_t argument_size, fake_cuda_kernel body);

/// Where a kernel on the host finds the bytes at an address of a device; the address itself for memory of the host.
/// Reading device memory at its own address crashes.
void* fake_cuda_reach(const void* address);
/// Whether a kernel may use these bytes.
int fake_cuda_can_reach(const void* address, std::size_t bytes);
/// Called by a kernel: it failed, say with 700 for an illegal address, and with it its context.
void fake_cuda_fail_kernel(int result);

/// The next call of this function of the driver fails with `result`. Answers how many faults there are by now.
std::uint64_t fake_cuda_fail_next(const char* function, int result);

/// The calls that were made, the commands that streams ran, the bytes that were copied, the kernels that ran, the
/// events made that tell their time; and the events that exist.
std::uint64_t fake_cuda_calls();
std::uint64_t fake_cuda_commands_run();
std::uint64_t fake_cuda_bytes_copied();
std::uint64_t fake_cuda_kernels_run();
std::uint64_t fake_cuda_timed_events();
std::uint64_t fake_cuda_events();

/// Called by a kernel: it reads, or writes, these bytes.
void fake_cuda_note_use(const void* address, std::size_t bytes, int is_write);
/// What copies and kernels have read, or written, in memory of devices: all of it, or only what was imported.
std::uint64_t fake_cuda_bytes_used(int is_write, int only_imported);
/// The times that memory of other processes was imported or opened, and what of it is mapped now.
std::uint64_t fake_cuda_imports();
std::uint64_t fake_cuda_imports_mapped();
}

namespace fake_cuda {

/// A result in place of which a function throws std::bad_alloc, as the program's own code does there if the host has no
/// memory left. Not for functions whose caller expects results other than success.
inline constexpr auto no_memory_of_host = static_cast<tutti::cuda::Result>(-1);

/// The next kernel fails with `result` when it runs.
void fail_next_kernel(tutti::cuda::Result result);

/// Whether this thread may call the driver: a function that a stream runs on the host must not.
class Permission {
 public:
  explicit Permission(bool permitted);
  Permission(const Permission&) = delete;
  Permission& operator=(const Permission&) = delete;
  ~Permission();
  static bool given();

 private:
  bool before_;
};

/// Within the fake: a kernel that is registered when it is loaded.
struct Kernels {
  Kernels(const char* name, std::size_t argument_size, fake_cuda_kernel body) {
    fake_cuda_register_kernel(name, argument_size, body);
  }
};

}  // namespace fake_cuda
