#include "lib/gpu/device_kernels.h"

#include <string>

#include "lib/compute/gpu/image.h"
#include "tutti/error.h"

namespace tutti::detail {
namespace {

const void* image() {
  if (compute::gpu::image().empty()) throw Error{ErrorCode::unsupported, std::string{compute::gpu::why_no_image()}};
  return compute::gpu::image().data();
}

}  // namespace

const DeviceKernels& DeviceKernels::get() {
  static const DeviceKernels& loaded = *new DeviceKernels;
  return loaded;
}

DeviceKernels::DeviceKernels() : image_(image()) {
  for (const compute::gpu::Kernel& kernel : compute::gpu::kernels()) kernels_.push_back(image_.kernel(kernel.name));
}

void DeviceKernels::load() const {
  for (const cuda::Kernel kernel : kernels_) cuda::KernelImage::load(kernel);
}

}  // namespace tutti::detail
