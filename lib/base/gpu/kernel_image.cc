#include "lib/base/gpu/kernel_image.h"

#include <fmt/format.h>

#include "lib/base/gpu/context.h"
#include "tutti/error.h"

namespace tutti::cuda {

KernelImage::KernelImage(const void* image) {
  const KnowsOfCapture knows;
  const Result result = driver().cuLibraryLoadData.result(&library_, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == Result::no_binary_for_gpu || result == Result::unsupported_ptx_version)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("This build of tutti has no kernels for this GPU and its driver, which belongs to CUDA {}.{}: "
                    "{}; update the driver, or build with its architecture (meson -Dgpu_archs)",
                    driver().version / 1000, driver().version % 1000 / 10, text_of(result)));
  if (result != Result::success) fail("cuLibraryLoadData", result);
}

KernelImage::~KernelImage() {
  if (available()) (void)driver().cuLibraryUnload.result(library_);
}

Kernel KernelImage::kernel(const char* name) const {
  Kernel found = nullptr;
  driver().cuLibraryGetKernel(&found, library_, name);
  return found;
}

void KernelImage::load(Kernel kernel) {
  const KnowsOfCapture knows;
  void* function = nullptr;
  int registers = 0;
  driver().cuKernelGetFunction(&function, kernel);
  driver().cuFuncGetAttribute(&registers, FunctionAttribute::registers, function);
}

}  // namespace tutti::cuda
