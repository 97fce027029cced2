// How programs find the functions, and what every call has in common: none works in a child by fork(), or before
// cuInit, and each can be made to fail.

#include "tests/support/fake_cuda/entry_points.h"

#include <pthread.h>

#include <cstring>
#include <new>
#include <string_view>

#include "tests/support/fake_cuda/control.h"

namespace fake_cuda {
namespace {

std::atomic<bool> initialized{false};
std::atomic<bool> forked{false};

struct WatchForks {
  WatchForks() {
    ::pthread_atfork(nullptr, nullptr, [] { forked = initialized.load(); });
  }
} watch_forks;

std::atomic<std::uint64_t> calls{0};
thread_local bool permitted = true;

bool works_before_init(const char* name) {
  for (const char* one : {"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString"})
    if (std::strcmp(name, one) == 0) return true;
  return false;
}

/// While streams are captured, in a thread that has not said that it knows.
constexpr bool is_unsafe_in_capture(std::string_view name) {
  for (const std::string_view one :
       {"cuMemAlloc",         "cuMemFree",           "cuMemHostAlloc",      "cuMemFreeHost",
        "cuMemHostRegister",  "cuMemHostUnregister", "cuMemCreate",         "cuMemImportFromShareableHandle",
        "cuMemMap",           "cuMemUnmap",          "cuIpcOpenMemHandle",  "cuIpcCloseMemHandle",
        "cuCtxSynchronize",   "cuStreamQuery",       "cuStreamSynchronize", "cuEventQuery",
        "cuEventSynchronize", "cuEventElapsedTime",  "cuLibraryLoadData",   "cuKernelGetFunction"})
    if (one == name) return true;
  return false;
}

/// The function of this name, with what all have in common.
template <class Name, auto function>
struct Entry;
template <class Name, class... Arguments, Result (*function)(Arguments...)>
struct Entry<Name, function> {
  static Result call(Arguments... arguments) {
    const Hidden hidden;
    if (forked || (!initialized && !works_before_init(Name::text))) return Result::not_initialized;
    ++calls;
    if (!Permission::given()) return Result::not_permitted;
    if (is_unsafe_in_capture(Name::text) && spoils_captures()) return Result::capture_unsupported;
    const Result fault = injected(Name::text);
    if (fault == no_memory_of_host) throw std::bad_alloc{};
    // A kernel fails when it runs.
    const bool later = fault >= Result::illegal_address && std::strcmp(Name::text, "cuLaunchKernel") == 0;
    if (fault != Result::success && !later) return fault;
    if (later) fail_next_kernel(fault);
    return function(arguments...);
  }
};

struct Found {
  const char* name;
  int version;
  void* pointer;
};

#define TUTTI_DRIVER_FUNCTION(name, version, ...) \
  struct Name_##name {                            \
    static constexpr const char* text = #name;    \
  };
#include "lib/base/gpu/functions.inc"
#include "tests/support/fake_cuda/program_functions.inc"
#undef TUTTI_DRIVER_FUNCTION

const Found table[] = {
#define TUTTI_DRIVER_FUNCTION(name, version, ...) \
  {#name, version, reinterpret_cast<void*>(&Entry<Name_##name, &name>::call)},
#include "lib/base/gpu/functions.inc"
#include "tests/support/fake_cuda/program_functions.inc"
#undef TUTTI_DRIVER_FUNCTION
};

}  // namespace

Permission::Permission(bool given) : before_(permitted) { permitted = given; }
Permission::~Permission() { permitted = before_; }
bool Permission::given() { return permitted; }

Result cuInit(unsigned flags) {
  if (flags != 0) return Result::invalid_value;
  if (settings().devices == 0) return Result::no_device;
  initialized = true;
  return Result::success;
}

Result cuDriverGetVersion(int* version) {
  *version = settings().version;
  return Result::success;
}

Result cuGetErrorName(Result result, const char** text) {
  switch (result) {
#define TUTTI_NAMED(name, shown) \
  case Result::name:             \
    *text = shown;               \
    return Result::success;
    TUTTI_NAMED(success, "CUDA_SUCCESS")
    TUTTI_NAMED(invalid_value, "CUDA_ERROR_INVALID_VALUE")
    TUTTI_NAMED(out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY")
    TUTTI_NAMED(not_initialized, "CUDA_ERROR_NOT_INITIALIZED")
    TUTTI_NAMED(no_device, "CUDA_ERROR_NO_DEVICE")
    TUTTI_NAMED(invalid_device, "CUDA_ERROR_INVALID_DEVICE")
    TUTTI_NAMED(invalid_context, "CUDA_ERROR_INVALID_CONTEXT")
    TUTTI_NAMED(invalid_handle, "CUDA_ERROR_INVALID_HANDLE")
    TUTTI_NAMED(map_failed, "CUDA_ERROR_MAP_FAILED")
    TUTTI_NAMED(not_found, "CUDA_ERROR_NOT_FOUND")
    TUTTI_NAMED(not_ready, "CUDA_ERROR_NOT_READY")
    TUTTI_NAMED(illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS")
    TUTTI_NAMED(launch_failed, "CUDA_ERROR_LAUNCH_FAILED")
    TUTTI_NAMED(not_permitted, "CUDA_ERROR_NOT_PERMITTED")
    TUTTI_NAMED(not_supported, "CUDA_ERROR_NOT_SUPPORTED")
    TUTTI_NAMED(capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")
    TUTTI_NAMED(capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")
    TUTTI_NAMED(capture_merge, "CUDA_ERROR_STREAM_CAPTURE_MERGE")
    TUTTI_NAMED(capture_unmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED")
    TUTTI_NAMED(capture_unjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED")
    TUTTI_NAMED(capture_isolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION")
    TUTTI_NAMED(capture_implicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT")
    TUTTI_NAMED(captured_event, "CUDA_ERROR_CAPTURED_EVENT")
    TUTTI_NAMED(unknown, "CUDA_ERROR_UNKNOWN")
#undef TUTTI_NAMED
    default:
      *text = nullptr;
      return Result::invalid_value;
  }
}

Result cuGetErrorString(Result result, const char** text) {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != Result::success) return Result::invalid_value;
  *text = "an answer of the fake driver";
  return Result::success;
}

}  // namespace fake_cuda

using fake_cuda::Result;

extern "C" {

__attribute__((visibility("default"))) Result cuDriverGetVersion(int* version) {
  const Result fault = fake_cuda::injected("cuDriverGetVersion");
  return fault == Result::success ? fake_cuda::cuDriverGetVersion(version) : fault;
}

__attribute__((visibility("default"))) Result cuGetProcAddress_v2(const char* name, void** function, int version,
                                                                  std::uint64_t flags, int* status) {
  *function = nullptr;
  if (status != nullptr) *status = 1;  // not found
  if (const Result fault = fake_cuda::injected("cuGetProcAddress_v2"); fault != Result::success) return fault;
  if (flags != 1) fake_cuda::misuse("cuGetProcAddress without the flag that makes a null stream the legacy one");
  for (const fake_cuda::Found& one : fake_cuda::table) {
    if (std::strcmp(one.name, name) != 0 || fake_cuda::settings().missing == name) continue;
    // A newer form of the function has another interface, and an older one as well.
    if (one.version != version) fake_cuda::misuse(std::string{name} + " is asked for in a version that it lacks");
    *function = one.pointer;
    if (status != nullptr) *status = 0;
    return Result::success;
  }
  return Result::not_found;
}

__attribute__((visibility("default"))) std::uint64_t fake_cuda_calls() { return fake_cuda::calls; }
}
