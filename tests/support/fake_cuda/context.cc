#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/support/fake_cuda/entry_points.h"

namespace fake_cuda {
namespace {

struct Primary {
  ContextState* context = nullptr;
  int holders = 0;
};

std::map<Device, Primary>& primaries = *new std::map<Device, Primary>;
std::set<ContextState*>& contexts = *new std::set<ContextState*>;
thread_local std::vector<ContextState*> stack;

bool is_device(Device device) { return device >= 0 && device < settings().devices; }

/// As in a real driver, a new context may have the pointer of one that has ended.
void begin(ContextState& context) {
  context.id = next_id();
  context.destroyed = false;
  context.sticky = Result::success;
  context.loaded.clear();
  for (StreamState* stream : context.streams) stream->id = next_id();
}

ContextState* make_context(Device device) {
  for (ContextState* const old : contexts)
    if (old->destroyed && old->device == device) {
      begin(*old);
      return old;
    }
  auto* const made = new ContextState;
  made->device = device;
  made->legacy = std::make_unique<StreamState>();
  made->legacy->context = made;
  made->legacy->blocking = true;
  made->next_stream = 1;
  contexts.insert(made);
  // Belongs to the context, so the worker never deletes it: `destroyed` stays false.
  start_worker(made->legacy.get());
  begin(*made);
  return made;
}

/// What still runs, runs; then the context answers that it is destroyed.
void destroy(Lock& lock, ContextState& context) {
  wait_for_device(lock, context, "the end of a context");
  context.destroyed = true;
  end_memory(context);
  end_events(context);
}

}  // namespace

ContextState* current(Lock& lock, Result& error) {
  error = Result::success;
  ContextState* const context = stack.empty() ? nullptr : stack.back();
  if (context == nullptr) {
    error = Result::invalid_context;
    return nullptr;
  }
  changed.wait(lock, [&] { return context->held == 0; });
  if (context->destroyed) error = Result::context_is_destroyed;
  if (error == Result::success) error = context->sticky;
  return error == Result::success ? context : nullptr;
}

namespace {

/// The default streams of a thread, which end with it.
struct OfThread {
  std::map<ContextState*, StreamState*> streams;

  ~OfThread() {
    const Hidden hidden;
    const Lock lock{big};
    for (const auto& [context, stream] : streams) stream->destroyed = true;
    changed.notify_all();
  }
};

StreamState* stream_of_thread(ContextState& context) {
  static thread_local OfThread own;
  StreamState*& stream = own.streams[&context];
  if (stream == nullptr) {
    stream = new StreamState;
    stream->context = &context;
    stream->number = context.next_stream++;
    stream->blocking = true;
    stream->queue = stream->number % settings().queues;
    start_worker(stream);
  }
  return stream;
}

}  // namespace

StreamState* stream_of(Stream handle, ContextState* of_default) {
  if (handle == nullptr || handle == legacy_stream || handle == per_thread_stream) {
    if (of_default == nullptr) return nullptr;
    return handle == per_thread_stream ? stream_of_thread(*of_default) : of_default->legacy.get();
  }
  for (ContextState* context : contexts)
    for (StreamState* stream : context->streams)
      if (stream == handle && !stream->destroyed) return stream;
  return nullptr;
}

Result cuDeviceGetCount(int* count) {
  *count = settings().devices;
  return Result::success;
}

Result cuDeviceGet(Device* device, int ordinal) {
  if (!is_device(ordinal)) return Result::invalid_device;
  *device = ordinal;
  return Result::success;
}

Result cuDeviceGetName(char* name, int length, Device device) {
  if (!is_device(device)) return Result::invalid_device;
  std::snprintf(name, static_cast<std::size_t>(length), "fake GPU");
  return Result::success;
}

Result cuDeviceGetUuid(Uuid* uuid, Device device) {
  if (!is_device(device)) return Result::invalid_device;
  *uuid = {};
  std::memcpy(uuid->bytes.data(), "fake GPU", 8);
  uuid->bytes[15] = static_cast<unsigned char>(device);
  return Result::success;
}

Result cuDeviceGetPCIBusId(char* text, int length, Device device) {
  if (!is_device(device)) return Result::invalid_device;
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  return Result::success;
}

Result cuDeviceGetAttribute(int* value, DeviceAttribute attribute, Device device) {
  if (!is_device(device)) return Result::invalid_device;
  switch (attribute) {
    case DeviceAttribute::multiprocessor_count:
      *value = 4;
      return Result::success;
    case DeviceAttribute::compute_capability_major:
      *value = settings().capability / 10;
      return Result::success;
    case DeviceAttribute::compute_capability_minor:
      *value = settings().capability % 10;
      return Result::success;
    case DeviceAttribute::virtual_memory_management:
    case DeviceAttribute::posix_file_descriptor:
      *value = settings().virtual_memory;
      return Result::success;
    case DeviceAttribute::stream_memory_operations_64:
      *value = settings().memory_operations;
      return Result::success;
  }
  return Result::invalid_value;
}

Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  if (!is_device(device)) return Result::invalid_device;
  const Lock lock{big};
  Primary& primary = primaries[device];
  if (primary.holders++ == 0) primary.context = make_context(device);
  *context = primary.context;
  return Result::success;
}

Result cuDevicePrimaryCtxRelease(Device device) {
  if (!is_device(device)) return Result::invalid_device;
  Lock lock{big};
  Primary& primary = primaries[device];
  if (primary.holders == 0) return Result::invalid_context;
  if (--primary.holders == 0) destroy(lock, *std::exchange(primary.context, nullptr));
  return Result::success;
}

/// Its holders keep it, with nothing of what it had.
Result cuDevicePrimaryCtxReset(Device device) {
  if (!is_device(device)) return Result::invalid_device;
  Lock lock{big};
  const Primary& primary = primaries[device];
  if (primary.holders == 0) return Result::success;
  destroy(lock, *primary.context);
  begin(*primary.context);
  return Result::success;
}

Result cuCtxCreate(Context* context, unsigned, Device device) {
  if (!is_device(device)) return Result::invalid_device;
  const Lock lock{big};
  stack.push_back(make_context(device));  // is current afterwards
  *context = stack.back();
  return Result::success;
}

Result cuCtxDestroy(Context handle) {
  Lock lock{big};
  auto* const context = static_cast<ContextState*>(handle);
  if (!contexts.contains(context) || context->destroyed) return Result::invalid_context;
  destroy(lock, *context);
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  return Result::success;
}

Result cuCtxGetCurrent(Context* context) {
  *context = stack.empty() ? nullptr : stack.back();
  return Result::success;
}

Result cuCtxPushCurrent(Context handle) {
  const Lock lock{big};
  auto* const context = static_cast<ContextState*>(handle);
  if (!contexts.contains(context)) return Result::invalid_context;
  if (context->destroyed) return Result::context_is_destroyed;
  stack.push_back(context);
  return Result::success;
}

Result cuCtxPopCurrent(Context* context) {
  if (stack.empty()) return Result::invalid_context;
  if (context != nullptr) *context = stack.back();
  stack.pop_back();
  return Result::success;
}

Result cuCtxGetId(Context handle, unsigned long long* id) {
  const Lock lock{big};
  auto* const context = handle != nullptr ? static_cast<ContextState*>(handle) : stack.empty() ? nullptr : stack.back();
  if (!contexts.contains(context)) return Result::invalid_context;
  if (context->destroyed) return Result::context_is_destroyed;
  *id = context->id;
  return Result::success;
}

Result cuCtxGetDevice(Device* device) {
  if (stack.empty()) return Result::invalid_context;
  *device = stack.back()->device;
  return Result::success;
}

Result cuCtxSynchronize() {
  Lock lock{big};
  Result error;
  ContextState* const context = current(lock, error);
  if (context == nullptr) return error;
  // Others are let in: each stream's last command of this moment is waited for.
  std::vector<std::pair<StreamState*, std::shared_ptr<Point>>> last;
  for (StreamState* stream : context->streams) last.emplace_back(stream, stream->last);
  for (const auto& [stream, point] : last)
    if (point != nullptr && !point->done) stream->wanted = true;
  for (const auto& [stream, point] : last) wait_for(lock, nullptr, point);
  return context->sticky;
}

Result cuCtxEnablePeerAccess(Context handle, unsigned) {
  Lock lock{big};
  Result error;
  ContextState* const context = current(lock, error);
  if (context == nullptr) return error;
  auto* const peer = static_cast<ContextState*>(handle);
  if (!contexts.contains(peer)) return Result::invalid_context;
  if (!settings().peer_access) return Result::peer_access_unsupported;
  return context->peers.insert(peer->id).second ? Result::success : Result::peer_access_already_enabled;
}

namespace {

/// Says what is left when the process exits.
struct Leaks {
  ~Leaks() {
    const char* const wanted = std::getenv("FAKE_CUDA_LEAKS");
    if (wanted == nullptr || *wanted != '1') return;
    const Lock lock{big};
    int left = 0;
    const auto say = [&](const char* what, Address where) {
      std::fprintf(stderr, "fake_cuda: left at exit: %s at %#llx\n", what, static_cast<unsigned long long>(where));
      ++left;
    };
    for (const auto& [base, range] : ranges) {
      static constexpr const char* names[] = {"device memory", "another process's memory", "reserved addresses",
                                              "pinned memory", "registered memory"};
      say(names[static_cast<int>(range.kind)], base);
    }
    for (ContextState* context : contexts)
      for (StreamState* stream : context->streams)
        if (stream != context->legacy.get() && !stream->destroyed && !context->destroyed)
          say("a stream", reinterpret_cast<Address>(stream));
    if (left != 0) std::_Exit(66);
  }
} leaks;

}  // namespace
}  // namespace fake_cuda
