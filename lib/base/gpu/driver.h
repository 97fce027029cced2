#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "lib/base/gpu/driver_types.h"

// NVIDIA's driver, libcuda.so.1, opened when a GPU is first used: nothing is linked to it, and no header of CUDA's is
// needed (docs/decisions/0047-driver-by-dlopen.md). All of the GPU half calls the driver through the table below.

namespace tutti::cuda {

/// One function of the driver.
template <class... Arguments>
class Function {
 public:
  using Pointer = Result (*)(Arguments...);

  /// Throws what the driver answers, unless it is success.
  void operator()(Arguments... arguments) const;
  /// The driver's answer, for callers that expect others than success.
  Result result(Arguments... arguments) const noexcept { return pointer_(arguments...); }

 private:
  friend class Loading;
  const char* name_ = nullptr;
  Pointer pointer_ = nullptr;
};

/// Throws Error{system}: which function failed with what, where the remedy is known with the remedy.
[[noreturn]] void fail(const char* function, Result result);

template <class... Arguments>
void Function<Arguments...>::operator()(Arguments... arguments) const {
  if (const Result result = pointer_(arguments...); result != Result::success) fail(name_, result);
}

/// The functions, each under CUDA's name.
struct Driver {
#define TUTTI_DRIVER_FUNCTION(name, version, ...) Function<__VA_ARGS__> name;
#include "lib/base/gpu/functions.inc"
#undef TUTTI_DRIVER_FUNCTION
  int version = 0;  ///< 13000: the CUDA 13.0 that the driver belongs to
  int devices = 0;  ///< at least 1
};

/// True if a GPU can be used. The first call of any of these three loads and starts the driver, which takes up to
/// a second; it creates no context. Threading: any.
bool available();
/// One sentence that says why not, with the remedy; empty if a GPU can be used.
std::string why_not();
/// The functions. Throws Error{unsupported} with why_not().
const Driver& driver();

/// True if this process has loaded a driver, whether by driver() or by another library. Loads nothing, makes no system
/// call and allocates nothing: a call with host memory may ask. Threading: any.
bool driver_is_loaded() noexcept;
/// Whether driver_is_loaded() has ever been true; no driver is unloaded.
extern std::atomic<bool> driver_was_found;

/// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
std::string text_of(Result result);

/// What one device is and can do.
struct DeviceFacts {
  std::string name;    ///< "NVIDIA H200"
  Uuid uuid = {};      ///< the same in all processes and containers
  std::string bus;     ///< "0000:17:00.0"
  int capability = 0;  ///< 90: compute capability 9.0
  int multiprocessors = 0;
  bool memory_operations = false;  ///< streams wait for and write 64-bit words
  bool virtual_memory = false;     ///< memory that is shared by file descriptors
};
DeviceFacts facts_of(Device device);

}  // namespace tutti::cuda
