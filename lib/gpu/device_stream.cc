#include "lib/gpu/device_stream.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/memory.h"
#include "lib/gpu/pinned_memory.h"
#include "tutti/error.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;

bool is_drained(cuda::Stream stream) {
  const cuda::Result result = cuda::driver().cuStreamQuery.result(stream);
  if (result == cuda::Result::not_ready) return false;
  if (result != cuda::Result::success) cuda::fail("cuStreamQuery", result);
  return true;
}

bool drains_within(cuda::Stream stream, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!is_drained(stream)) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Lets a stream wait for a word, and stores it.
bool try_to_wake(cuda::Context context) {
  const cuda::KnowsOfCapture knows;
  const cuda::OwnStream waiting{context};
  const cuda::OwnStream rescuing{context};
  cuda::Commands commands{context, waiting.get()};
  // Whatever comes of it, the memory must live until the wait has ended.
  auto* const memory = new PinnedMemory{PinnedMemory::take(0)};
  const cuda::Address word = cuda::address_of(&memory->word());
  commands.wait(word, 1);
  commands.flush();
  memory->word().store(1, std::memory_order_release);
  const bool woken = drains_within(waiting.get(), 1s);
  if (!woken) {
    cuda::Commands rescue{context, rescuing.get()};
    rescue.write(word, 1);
    rescue.flush();
    if (!drains_within(waiting.get(), 1s)) return false;
  }
  delete memory;
  return woken;
}

}  // namespace

DeviceStream::DeviceStream(const std::string& call, std::span<const Buffer> buffers, void* stream, const char* remedy)
    : stream_(stream), context_(nullptr), device_(-1) {
  if (!cuda::available()) throw Error{ErrorCode::unsupported, fmt::format("{}: {}", call, cuda::why_not())};
  for (const Buffer& buffer : buffers) {
    const cuda::PointerFacts facts = cuda::facts_of(cuda::address_of(buffer.data));
    if (facts.kind != cuda::PointerFacts::Kind::device && facts.kind != cuda::PointerFacts::Kind::managed)
      throw Error{ErrorCode::invalid_argument,
                  fmt::format("{}: {} is memory of the host ({}), but is given as device memory: {}", call, buffer.name,
                              buffer.data, remedy)};
    if (device_ >= 0 && facts.device != device_)
      throw Error{ErrorCode::invalid_argument,
                  fmt::format("{}: one buffer is on GPU {}, and {} is on GPU {}: give memory of one GPU", call, device_,
                              buffer.name, facts.device)};
    device_ = facts.device;
    if (!context_) context_ = cuda::context_of(stream_, cuda::address_of(buffer.data));
  }
  const cuda::Device of_stream = cuda::device_of(context_);
  if (of_stream != device_)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("{}: the buffers are on GPU {}, and the stream belongs to GPU {}: give a stream of the GPU "
                            "that has the memory",
                            call, device_, of_stream)};
}

DeviceStream::DeviceStream(const std::string& call, cuda::Context otherwise, void* stream)
    : stream_(stream), context_(otherwise), device_(-1) {
  if (!cuda::available()) throw Error{ErrorCode::unsupported, fmt::format("{}: {}", call, cuda::why_not())};
  if (!cuda::is_default(stream_)) context_ = cuda::context_of(stream_, 0);
  if (!context_) cuda::driver().cuCtxGetCurrent(&context_);
  if (!context_) {
    context_ = cuda::kept_primary_context(0);
    int count = 0;
    cuda::driver().cuDeviceGetCount(&count);
    named_ = count == 1;
  }
  device_ = cuda::device_of(context_);
}

void DeviceStream::prepare(const std::string& call) {
  const cuda::Current current{context_};
  capture_ = cuda::capture_of(stream_);
  if (capture_.is_implicit)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("{}: its stream is the legacy default one, which cannot be used while a stream is being "
                            "captured that is in order with it: give the call a stream that was made with "
                            "cudaStreamNonBlocking, capture such a stream, or make the call outside of the capture",
                            call)};
  if (capture_.is_spoiled)
    throw Error{
        ErrorCode::invalid_argument,
        fmt::format("{}: its stream is being captured into a graph, and a call that captures forbid has spoiled "
                    "the capture: end it, and capture again without that call",
                    call)};
  known_context_ = cuda::KnownContext{context_};
  id_ = cuda::id_of(stream_);
}

void DeviceStream::refuse_capture(const std::string& call, const std::string& why) const {
  if (capture_)
    throw Error{ErrorCode::unsupported, fmt::format("{}: its stream is being captured into a graph: {}", call, why)};
}

bool DeviceStream::can_wait_for_host() const {
  static std::mutex mutex;
  static auto& known = *new std::map<cuda::Device, bool>;  // never destroyed: threads may call at the end
  const std::lock_guard lock{mutex};
  const auto found = known.find(device_);
  if (found != known.end()) return found->second;
  const bool can = cuda::facts_of(device_).memory_operations && try_to_wake(context_);
  return known.emplace(device_, can).first->second;
}

namespace {

/// Makes the context of a call current.
class InStreamOf {
 public:
  explicit InStreamOf(const Pending::OnDevice& call) : current_(call.context) {
    if (call.stream == cuda::per_thread_stream && cuda::id_of(call.stream) != call.id)
      throw Error{ErrorCode::invalid_argument,
                  "wait_on: the call is in the default stream of another thread (cudaStreamPerThread), which has no "
                  "name here: let that thread order streams, give the call another stream, or use wait()"};
  }

 private:
  cuda::Current current_;
};

}  // namespace

bool is_in_its_capture(const Pending::OnDevice& call) {
  const InStreamOf current{call};
  return cuda::capture_of(call.stream).id == call.capture;
}

void order_streams(const Pending::OnDevice& call, cuda::Stream later) {
  const cuda::Context named = cuda::context_of(later);
  const InStreamOf current{call};
  const cuda::OwnEvent event{call.context};
  cuda::Commands{call.context, call.stream}.record(event.get());
  cuda::Commands{named ? named : call.context, later}.wait(event.get());
}

}  // namespace tutti::detail
