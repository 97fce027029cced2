#include "lib/base/gpu/context.h"

#include <map>
#include <mutex>

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

Context kept_primary_context(Device device) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::map<Device, PrimaryContext>;
  const std::lock_guard lock{mutex};
  return all.try_emplace(device, device).first->second.get();
}

KnownContext::KnownContext(Context context) : context_(context) { driver().cuCtxGetId(context, &id_); }

bool KnownContext::exists() const noexcept {
  unsigned long long id = 0;
  return context_ != nullptr && available() && driver().cuCtxGetId.result(context_, &id) == Result::success &&
         id == id_;
}

Current::~Current() {
  Context popped = nullptr;
  (void)driver().cuCtxPopCurrent.result(&popped);
}

KnowsOfCapture::KnowsOfCapture() { driver().cuThreadExchangeStreamCaptureMode(&before_); }

KnowsOfCapture::~KnowsOfCapture() { (void)driver().cuThreadExchangeStreamCaptureMode.result(&before_); }

bool is_default(Stream stream) { return stream == nullptr || stream == legacy_stream || stream == per_thread_stream; }

std::uint64_t id_of(Stream stream) {
  unsigned long long id = 0;
  driver().cuStreamGetId(stream, &id);
  return id;
}

Context context_of(Stream stream) {
  Context context = nullptr;
  if (is_default(stream))
    driver().cuCtxGetCurrent(&context);
  else
    driver().cuStreamGetCtx(stream, &context);
  return context;
}

Context context_of(Stream stream, Address memory) {
  if (!is_default(stream)) return context_of(stream);
  const PointerFacts facts = facts_of(memory);
  if (facts.context != nullptr) return facts.context;
  // Memory of the kind that is made by cuMemCreate belongs to a device only.
  if (facts.device < 0)
    throw Error(
        ErrorCode::invalid_argument,
        "The stream is the default one and the memory is no device's, so the call has no device; give device memory");
  // The program's stream is the default one of its current context, if that can use the memory.
  const Context current = context_of(stream);
  if (current != nullptr && device_of(current) == facts.device) return current;
  return kept_primary_context(facts.device);  // which the runtime API would use here, too
}

Device device_of(Context context) {
  const Current current{context};
  Device device = 0;
  driver().cuCtxGetDevice(&device);
  return device;
}

}  // namespace tutti::cuda
