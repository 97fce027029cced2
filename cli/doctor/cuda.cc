// Looks for CUDA at run time only; the build does not need it.

#include <dlfcn.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "cli/doctor/doctor.h"
#include "lib/base/descriptor.h"

namespace tutti::cli {
namespace {

/// The toolkit's compiler in PATH, or where its packages install it; empty: not found.
std::string find_nvcc() {
  const char* const path = std::getenv("PATH");
  std::string folders = fmt::format("{}:/usr/local/cuda/bin", path == nullptr ? "" : path);
  while (!folders.empty()) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    const std::string candidate = folders.substr(0, end) + "/nvcc";
    if (end > 0 && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    folders.erase(0, end + 1);
  }
  return {};
}

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

Finding driver() {
  const bool has_device_file = ::access("/dev/nvidia0", F_OK) == 0 || ::access("/dev/nvidiactl", F_OK) == 0;
  const Level when_missing = has_device_file ? Level::warn : Level::ok;
  Finding finding{.what = "CUDA devices", .found = {}, .remedy = {}};
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    finding.level = when_missing;
    finding.found = "none (no libcuda.so.1)";
    finding.remedy = "install the NVIDIA driver's libraries, or start the container with --gpus";
    return finding;
  }
  const auto init = symbol<int (*)(unsigned)>(library, "cuInit");
  const auto count_devices = symbol<int (*)(int*)>(library, "cuDeviceGetCount");
  const auto version_of = symbol<int (*)(int*)>(library, "cuDriverGetVersion");
  const auto name_of = symbol<int (*)(char*, int, int)>(library, "cuDeviceGetName");
  int failed = -1, version = 0, devices = 0;
  if (init != nullptr && count_devices != nullptr && version_of != nullptr && name_of != nullptr) {
    version_of(&version);
    failed = init(0);
    if (failed == 0) failed = count_devices(&devices);
  }
  if (failed != 0) {
    finding.level = when_missing;
    finding.found = fmt::format("none (driver for CUDA {}.{}: error {})", version / 1000, version % 1000 / 10, failed);
    finding.remedy = "look at nvidia-smi: the kernel driver and its library must be of one version";
  } else {
    char name[128] = "";
    if (devices > 0) name_of(name, sizeof name, 0);
    finding.found = fmt::format("{}{} (driver for CUDA {}.{})", devices, devices > 0 ? fmt::format(" x {}", name) : "",
                                version / 1000, version % 1000 / 10);
  }
  ::dlclose(library);
  return finding;
}

}  // namespace

std::vector<Finding> check_cuda() {
  const std::string nvcc = find_nvcc();
  return {driver(), {.what = "CUDA toolkit", .found = nvcc.empty() ? "none (no nvcc in PATH)" : nvcc, .remedy = {}}};
}

}  // namespace tutti::cli
