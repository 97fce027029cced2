#include "tests/support/gpu_kernels/host_kernels.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define TUTTI_GPU_FUNCTION
#include "lib/compute/gpu/kernels.inl"

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

}  // namespace

const HostKernel* host_kernel(std::string_view name) {
  for (const HostKernel& kernel : all)
    if (name == kernel.name) return &kernel;
  return nullptr;
}

}  // namespace tutti::testing
