#pragma once

#include <dlfcn.h>

#include <cstdint>

#include "lib/base/gpu/driver.h"

namespace tutti::testing {

using cuda::Address;
using cuda::CaptureMode;
using cuda::Context;
using cuda::Device;
using cuda::Event;
using cuda::Graph;
using cuda::Result;
using cuda::Stream;
using GraphExec = void*;

/// Functions of the driver that the library does not call.
struct ProgramCalls {
#define TUTTI_DRIVER_FUNCTION(name, version, ...) \
  Result (*name)(__VA_ARGS__) = find<Result (*)(__VA_ARGS__)>(#name, version);
#include "tests/support/fake_cuda/program_functions.inc"
#undef TUTTI_DRIVER_FUNCTION

 private:
  template <class Pointer>
  static Pointer find(const char* name, int version) {
    using Get = Result (*)(const char*, void**, int, std::uint64_t, int*);
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const auto get = reinterpret_cast<Get>(::dlsym(library, "cuGetProcAddress_v2"));
    void* found = nullptr;
    if (const Result result = get(name, &found, version, 1, nullptr); result != Result::success)
      cuda::fail(name, result);
    return reinterpret_cast<Pointer>(found);
  }
};
inline const ProgramCalls& program_calls() {
  (void)cuda::driver();  // starts it
  static const ProgramCalls calls;
  return calls;
}

}  // namespace tutti::testing
