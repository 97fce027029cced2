#include "lib/base/gpu/context.h"

#include "lib/base/gpu/memory.h"
#include "tutti/error.h"

namespace tutti::cuda {

PrimaryContext::PrimaryContext(Device device) : device_(device) {
  driver().cuDevicePrimaryCtxRetain(&context_, device);
}

// A destructor does not care for the answer: at the end of a process the driver may have ended before.
PrimaryContext::~PrimaryContext() {
  if (context_ != nullptr && available()) (void)driver().cuDevicePrimaryCtxRelease.result(device_);
}

Current::~Current() {
  Context popped = nullptr;
  (void)driver().cuCtxPopCurrent.result(&popped);
}

KnowsOfCapture::KnowsOfCapture() { driver().cuThreadExchangeStreamCaptureMode(&before_); }

KnowsOfCapture::~KnowsOfCapture() { (void)driver().cuThreadExchangeStreamCaptureMode.result(&before_); }

bool is_default(Stream stream) { return stream == nullptr || stream == legacy_stream || stream == per_thread_stream; }

Context context_of(Stream stream, Address memory) {
  if (!is_default(stream)) {
    Context context = nullptr;
    driver().cuStreamGetCtx(stream, &context);
    return context;
  }
  const PointerFacts facts = facts_of(memory);
  if (facts.context != nullptr) return facts.context;
  // Memory of the kind that is made by cuMemCreate belongs to a device only.
  if (facts.device < 0)
    throw Error(
        ErrorCode::invalid_argument,
        "The stream is the default one and the memory is no device's, so the call has no device; give device memory");
  // The primary context is the one that others use on this device; the maker of the memory keeps it alive.
  return PrimaryContext{facts.device}.get();
}

Device device_of(Context context) {
  const Current current{context};
  Device device = 0;
  driver().cuCtxGetDevice(&device);
  return device;
}

}  // namespace tutti::cuda
