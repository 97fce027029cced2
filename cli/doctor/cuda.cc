// What a GPU needs is looked for at run time only; the build does not need it.

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "cli/doctor/doctor.h"
#include "lib/base/gpu/driver.h"

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

Finding driver() {
  const bool has_device_file = ::access("/dev/nvidia0", F_OK) == 0 || ::access("/dev/nvidiactl", F_OK) == 0;
  if (!cuda::available())
    return {
        .level = has_device_file ? Level::warn : Level::ok,
        .what = "GPUs",
        .found = fmt::format("none that can be used: {}", cuda::why_not()),
        .remedy = has_device_file ? "remove the cause that it names; nvidia-smi shows the GPUs of this machine" : ""};
  const int devices = cuda::driver().devices;
  const int version = cuda::driver().version;
  std::string found = fmt::format("{}, driver for CUDA {}.{}", devices, version / 1000, version % 1000 / 10);
  for (int device = 0; device < devices; ++device) {
    const cuda::DeviceFacts facts = cuda::facts_of(device);
    found += fmt::format("; {} {} (compute capability {}.{}{}{})", device, facts.name, facts.capability / 10,
                         facts.capability % 10, facts.memory_operations ? "" : ", streams cannot wait for words",
                         facts.virtual_memory ? "" : ", no memory by file descriptor");
  }
  return {.what = "GPUs", .found = found, .remedy = {}};
}

}  // namespace

std::vector<Finding> check_cuda() {
  const std::string nvcc = find_nvcc();
  return {driver(), {.what = "CUDA toolkit", .found = nvcc.empty() ? "none (no nvcc in PATH)" : nvcc, .remedy = {}}};
}

}  // namespace tutti::cli
