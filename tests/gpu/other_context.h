#pragma once

#include "tests/gpu/program_calls.h"

namespace tutti::testing {

/// A context beside the primary one, which is not current.
struct OtherContext {
  explicit OtherContext(cuda::Device device = 0) {
    const cuda::Result result = program_calls().cuCtxCreate(&context, 0, device);
    if (result != cuda::Result::success) cuda::fail("cuCtxCreate", result);
    cuda::Context popped = nullptr;
    cuda::driver().cuCtxPopCurrent(&popped);
  }
  OtherContext(const OtherContext&) = delete;
  OtherContext& operator=(const OtherContext&) = delete;
  ~OtherContext() { (void)cuda::driver().cuCtxDestroy.result(context); }
  cuda::Context context = nullptr;
};

}  // namespace tutti::testing
