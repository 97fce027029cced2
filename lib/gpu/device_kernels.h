#pragma once

#include <vector>

#include "lib/base/gpu/kernel_image.h"
#include "lib/compute/gpu/table.h"

namespace tutti::detail {

/// The kernels of lib/compute/gpu in the driver: one image for all devices and contexts of this process, kept until
/// that ends. Threading: any thread.
class DeviceKernels {
 public:
  /// Throws Error{unsupported}, with the remedy, where this build has none or this GPU cannot run them.
  static const DeviceKernels& get();
  DeviceKernels(const DeviceKernels&) = delete;

  /// Loads all for the current context. The first time that waits for all that its device does.
  void load() const;
  cuda::Kernel operator[](const compute::gpu::Kernel& kernel) const {
    return kernels_[static_cast<std::size_t>(kernel.index)];
  }

 private:
  DeviceKernels();

  cuda::KernelImage image_;
  std::vector<cuda::Kernel> kernels_;
};

}  // namespace tutti::detail
