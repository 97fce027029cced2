#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/index.h"
#include "lib/compute/gpu/image.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/on_device.h"
#include "tests/support/fake_cuda/control.h"
#include "tutti/gpu.h"
#include "tutti/tutti.h"

// For tests of ranks that use each other's memory.

namespace tutti::testing {

inline bool is_thread() { return !std::getenv("TUTTI_RANK"); }
inline bool has_kernels() { return !compute::gpu::image().empty(); }

/// Whether ranks are processes that talk by TCP only.
inline bool share_no_memory() {
  const char* const transport = std::getenv("TUTTI_TRANSPORT");
  return !is_thread() && transport && std::string{transport} == "tcp";
}

/// Whether ranks are processes that can use each other's memory by kernels.
inline bool may_have_windows() { return has_gpu() && !is_thread() && has_kernels() && !share_no_memory(); }

inline std::vector<float> data_of(int rank, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = 0.1f * static_cast<float>((i * 7 + at(rank) * 13) % 1000) + 1e-6f;
  return data;
}

inline void put(gpu::Span<float> to, const std::vector<float>& from) {
  const cuda::OwnStream stream{context()};
  cuda::Commands commands{context(), stream.get()};
  commands.copy(cuda::address_of(to.data()), cuda::address_of(from.data()), from.size() * sizeof(float));
  cuda::driver().cuStreamSynchronize(stream.get());
}

inline std::vector<float> get(gpu::Span<float> from) {
  std::vector<float> content(from.size());
  const cuda::OwnStream stream{context()};
  cuda::Commands commands{context(), stream.get()};
  commands.copy(cuda::address_of(content.data()), cuda::address_of(from.data()), content.size() * sizeof(float));
  cuda::driver().cuStreamSynchronize(stream.get());
  return content;
}

/// A count of the fake driver of this process; 0 on a real one.
template <class... Arguments>
std::uint64_t counted(const char* name, Arguments... arguments) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto function = reinterpret_cast<std::uint64_t (*)(Arguments...)>(library ? ::dlsym(library, name) : nullptr);
  return function ? function(arguments...) : 0;
}

/// Lets the next call of a function of the fake driver fail.
inline void fail_next(const char* function, cuda::Result result) {
  counted("fake_cuda_fail_next", function, static_cast<int>(result));
}

/// What the fake driver of this process has run, copied, and used; 0 on a real one.
struct DeviceWork {
  std::uint64_t commands = 0, kernels = 0, copied = 0, read = 0, written = 0, read_of_others = 0, written_of_others = 0;

  static DeviceWork so_far() {
    return {counted("fake_cuda_commands_run"),     counted("fake_cuda_kernels_run"),
            counted("fake_cuda_bytes_copied"),     counted("fake_cuda_bytes_used", 0, 0),
            counted("fake_cuda_bytes_used", 1, 0), counted("fake_cuda_bytes_used", 0, 1),
            counted("fake_cuda_bytes_used", 1, 1)};
  }
  DeviceWork operator-(const DeviceWork& before) const {
    return {commands - before.commands,
            kernels - before.kernels,
            copied - before.copied,
            read - before.read,
            written - before.written,
            read_of_others - before.read_of_others,
            written_of_others - before.written_of_others};
  }
};
/// What `call` lets this process's streams do.
inline DeviceWork work_of(const std::function<void()>& call) {
  const DeviceWork before = DeviceWork::so_far();
  call();
  return DeviceWork::so_far() - before;
}

inline int device_count() {
  int devices = 0;
  cuda::driver().cuDeviceGetCount(&devices);
  return devices;
}

/// Makes this thread's calls in the context of its GPU, as a program does.
struct Current {
  cuda::Current current{context()};
};

inline ErrorCode code_of(const std::function<void()>& call, std::string& text) {
  try {
    call();
  } catch (const Error& error) {
    text = error.what();
    return error.code();
  }
  text = "no error";
  return ErrorCode::system;
}

}  // namespace tutti::testing
