#include "cli/base/gpu_driver.h"

#include <fmt/core.h>

#include "lib/base/gpu/driver.h"

namespace tutti::cli {

std::string gpus_text() {
  constexpr std::string_view fake_device = "fake GPU";  // as tests/support/fake_cuda/ calls its devices
  const cuda::Driver& driver = cuda::driver();
  const cuda::DeviceFacts facts = cuda::facts_of(0);
  const std::string version =
      facts.name == fake_device ? "fake" : fmt::format("CUDA {}.{}", driver.version / 1000, driver.version % 1000 / 10);
  return fmt::format("{} ({} GPU{}), driver: {}", facts.name, driver.devices, driver.devices == 1 ? "" : "s", version);
}

}  // namespace tutti::cli
