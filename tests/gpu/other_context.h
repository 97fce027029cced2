#pragma once

#include "lib/base/gpu/driver.h"

namespace tutti::testing {

/// A context beside the primary one, which is not current.
struct OtherContext {
  explicit OtherContext(cuda::Device device = 0) {
    cuda::driver().cuCtxCreate(&context, 0, device);
    cuda::Context popped = nullptr;
    cuda::driver().cuCtxPopCurrent(&popped);
  }
  OtherContext(const OtherContext&) = delete;
  OtherContext& operator=(const OtherContext&) = delete;
  ~OtherContext() { (void)cuda::driver().cuCtxDestroy.result(context); }
  cuda::Context context = nullptr;
};

}  // namespace tutti::testing
