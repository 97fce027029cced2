#include "tests/support/gpu_kernels/host_kernels.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#define TUTTI_GPU_FUNCTION
#include "lib/compute/gpu/kernels.inl"
#include "lib/compute/gpu/meeting.inl"
#include "tests/support/gpu_kernels/host_block.h"

namespace tutti::testing {
namespace {

using compute::gpu::FoldArguments;

struct HostGrid {
  std::uint64_t thread, threads;
  std::uint64_t index() const { return thread; }
  std::uint64_t stride() const { return threads; }
};

struct HostMemory {
  std::ptrdiff_t alias;

  template <class T>
  char* at(std::uint64_t address, std::uint64_t i) const {
    const std::uint64_t wanted = address + i * sizeof(T);
    if (wanted % alignof(T) != 0) {
      std::fprintf(stderr, "a kernel uses address %#llx, which is no multiple of %zu\n",
                   static_cast<unsigned long long>(wanted), alignof(T));
      std::abort();
    }
    return reinterpret_cast<char*>(wanted) + alias;
  }
  template <class T>
  T load(std::uint64_t address, std::uint64_t i) const {
    T value;
    std::memcpy(static_cast<void*>(&value), at<T>(address, i), sizeof value);
    return value;
  }
  template <class T>
  void store(std::uint64_t address, std::uint64_t i, const T& value) const {
    std::memcpy(at<T>(address, i), &value, sizeof value);
  }
};

template <class Rule>
void run(const FoldArguments& arguments, std::uint64_t thread, std::uint64_t threads, std::ptrdiff_t alias) {
  compute::gpu::fold<Rule>(arguments, HostGrid{thread, threads}, HostMemory{alias});
}

using namespace compute;
using namespace compute::gpu;

constexpr HostKernel all[] = {
#define TUTTI_KERNEL(name, ...) {"tutti_" #name, run<__VA_ARGS__>},
#include "lib/compute/gpu/kernels.inc"
#undef TUTTI_KERNEL
};

struct HostWords {
  template <class T>
  static std::atomic_ref<T> at(std::uint64_t address) {
    return std::atomic_ref<T>{*reinterpret_cast<T*>(address)};
  }
  static std::uint64_t load(std::uint64_t address) {
    return at<std::uint64_t>(address).load(std::memory_order_acquire);
  }
  static void store(std::uint64_t address, std::uint64_t value) {
    at<std::uint64_t>(address).store(value, std::memory_order_release);
  }
  /// The rank that it waits for may need the core.
  void pause() {
    if (++pauses < 100) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  static std::uint32_t ticket(std::uint64_t counter) {
    return at<std::uint32_t>(counter).fetch_add(1, std::memory_order_acq_rel);
  }
  static void reset(std::uint64_t counter) { at<std::uint32_t>(counter).store(0, std::memory_order_relaxed); }
  int pauses = 0;
};

}  // namespace

void enter_block(const compute::gpu::Meeting& meeting, unsigned blocks) {
  compute::gpu::enter(meeting, HostBlock{blocks}, HostWords{});
}

void leave_block(const compute::gpu::Meeting& meeting, unsigned blocks) {
  compute::gpu::leave(meeting, HostBlock{blocks}, HostWords{});
}

const HostKernel* host_kernel(std::string_view name) {
  for (const HostKernel& kernel : all)
    if (name == kernel.name) return &kernel;
  return nullptr;
}

}  // namespace tutti::testing
