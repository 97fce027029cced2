// Streams and events as programs see them, and what can be enqueued.

#include <cstring>

#include "tests/support/fake_cuda/control.h"
#include "tests/support/fake_cuda/entry_points.h"

namespace fake_cuda {
namespace {

std::set<EventState*>& events = *new std::set<EventState*>;
std::atomic<std::uint64_t> bytes_copied{0};
std::atomic<std::uint64_t> timed_events{0};

/// The stream for a call that works in whatever context is current.
StreamState* stream_in_any(Lock& lock, Stream handle, Result& error) {
  ContextState* const context = current(lock, error);
  if (context == nullptr && error != Result::invalid_context) return nullptr;
  StreamState* const stream = stream_of(handle, context);
  error = stream == nullptr ? (context == nullptr ? Result::invalid_context : Result::invalid_handle)
                            : stream->context->sticky;
  return error == Result::success ? stream : nullptr;
}

/// The same for a command. In a capture that is worthless none can be added.
StreamState* stream_for_command(Lock& lock, Stream handle, Result& error) {
  StreamState* const stream = stream_in_any(lock, handle, error);
  if (stream == nullptr) return nullptr;
  if (is_captured_implicitly(*stream, true))
    error = Result::capture_implicit;
  else if (stream->capture && stream->capture->is_invalid)
    error = Result::capture_invalidated;
  return error == Result::success ? stream : nullptr;
}

EventState* event_of(Event handle) {
  auto* const event = static_cast<EventState*>(handle);
  return events.contains(event) ? event : nullptr;
}

bool is_pageable(Address address) { return range_of(address) == nullptr; }

bool is_of_device(Address address) {
  const Range::Kind kind = range_of(address)->kind;
  return kind != Range::Kind::host_allocated && kind != Range::Kind::host_registered;
}

}  // namespace

Result cuStreamCreateWithPriority(Stream* handle, unsigned flags, int) {
  Lock lock{big};
  Result error;
  ContextState* const context = current(lock, error);
  if (context == nullptr) return error;
  auto* const made = new StreamState;
  made->context = context;
  made->number = context->next_stream++;
  made->blocking = (flags & stream_non_blocking) == 0;
  made->queue = made->number % settings().queues;
  start_worker(made);
  *handle = made;
  return Result::success;
}

Result cuStreamDestroy(Stream handle) {
  const Lock lock{big};
  StreamState* const stream = stream_of(handle, nullptr);
  if (stream == nullptr) return Result::invalid_handle;
  stream->destroyed = true;  // its worker ends with what is enqueued
  changed.notify_all();
  return Result::success;
}

Result cuStreamQuery(Stream handle) {
  Lock lock{big};
  Result error;
  StreamState* const stream = stream_in_any(lock, handle, error);
  if (stream == nullptr) return error;
  if (spoils_capture_of(*stream)) return Result::capture_unsupported;
  if (stream->last == nullptr) return Result::success;
  if (!stream->last->done) return Result::not_ready;
  stream->last->edge.acquire();
  return Result::success;
}

Result cuStreamSynchronize(Stream handle) {
  Lock lock{big};
  Result error;
  StreamState* const stream = stream_in_any(lock, handle, error);
  if (stream == nullptr) return error;
  if (spoils_capture_of(*stream)) return Result::capture_unsupported;
  ContextState& context = *stream->context;
  wait_for(lock, stream, std::shared_ptr<Point>{stream->last});
  return context.sticky;
}

Result cuStreamGetCtx(Stream handle, Context* context) {
  Lock lock{big};
  Result error;
  StreamState* const stream = stream_in_any(lock, handle, error);
  if (stream == nullptr) return error;
  *context = stream->context;
  return Result::success;
}

Result cuStreamGetId(Stream handle, unsigned long long* id) {
  Lock lock{big};
  Result error;
  const StreamState* const stream = stream_in_any(lock, handle, error);
  if (stream != nullptr) *id = stream->id;
  return error;
}

Result cuStreamGetCaptureInfo(Stream handle, int* status, std::uint64_t* id, Graph* graph, const void** dependencies,
                              std::size_t* count) {
  Lock lock{big};
  Result error;
  const StreamState* const stream = stream_in_any(lock, handle, error);
  if (stream == nullptr) return error;
  if (dependencies != nullptr || count != nullptr) misuse("cuStreamGetCaptureInfo of nodes, which the fake has not");
  if (is_captured_implicitly(*stream, false)) return Result::capture_implicit;
  *status = !stream->capture ? capture_none : stream->capture->is_invalid ? capture_spoiled : capture_active;
  if (*status != capture_active) return Result::success;
  *id = stream->capture->id;
  *graph = stream->capture->graph.get();
  return Result::success;
}

Result cuEventCreate(Event* handle, unsigned flags) {
  Lock lock{big};
  Result error;
  ContextState* const context = current(lock, error);
  if (context == nullptr) return error;
  auto* const made = new EventState{context, (flags & event_disable_timing) == 0, nullptr, nullptr, {}};
  timed_events += made->timing ? 1 : 0;
  events.insert(made);
  *handle = made;
  return Result::success;
}

void end_events(const ContextState& context) {
  std::erase_if(events, [&](EventState* event) {
    if (event->context != &context) return false;
    delete event;
    return true;
  });
}

Result cuEventDestroy(Event handle) {
  const Lock lock{big};
  EventState* const event = event_of(handle);
  if (event == nullptr) return Result::invalid_handle;
  events.erase(event);
  delete event;
  return Result::success;
}

Result cuEventRecord(Event handle, Stream to) {
  Lock lock{big};
  Result error;
  StreamState* const stream = stream_for_command(lock, to, error);
  if (stream == nullptr) return error;
  EventState* const event = event_of(handle);
  if (event == nullptr || event->context != stream->context) return Result::invalid_handle;
  event->capture = stream->capture;
  event->captured = stream->captured;
  if (stream->capture) return Result::success;
  auto command = std::make_shared<Command>();
  event->record = command->point;
  enqueue(lock, *stream, std::move(command));
  return Result::success;
}

Result cuEventQuery(Event handle) {
  const Lock lock{big};
  EventState* const event = event_of(handle);
  if (event == nullptr) return Result::invalid_handle;
  if (event->capture) return Result::captured_event;
  if (event->context->sticky != Result::success) return event->context->sticky;
  if (event->record == nullptr) return Result::success;
  if (!event->record->done) return Result::not_ready;
  event->record->edge.acquire();
  return Result::success;
}

Result cuEventSynchronize(Event handle) {
  Lock lock{big};
  EventState* const event = event_of(handle);
  if (event == nullptr) return Result::invalid_handle;
  if (event->capture) return Result::captured_event;
  ContextState& context = *event->context;
  for (StreamState* stream : context.streams) stream->wanted |= !stream->pending.empty();
  wait_for(lock, nullptr, std::shared_ptr<Point>{event->record});
  return context.sticky;
}

Result cuEventElapsedTime(float* milliseconds, Event first, Event second) {
  const Lock lock{big};
  const EventState* const a = event_of(first);
  const EventState* const b = event_of(second);
  if (a == nullptr || b == nullptr || !a->timing || !b->timing || !a->record || !b->record)
    return Result::invalid_handle;
  if (!a->record->done || !b->record->done) return Result::not_ready;
  *milliseconds = static_cast<float>(1e3 * (b->record->when - a->record->when));
  return Result::success;
}

Result cuStreamWaitEvent(Stream handle, Event of, unsigned) {
  Lock lock{big};
  Result error;
  StreamState* const stream = stream_for_command(lock, handle, error);
  if (stream == nullptr) return error;
  EventState* const event = event_of(of);
  if (event == nullptr) return Result::invalid_handle;
  if (const std::optional<Result> captured = wait_in_capture(*stream, *event)) return *captured;
  if (event->record == nullptr) return Result::success;  // there is nothing to wait for
  auto command = std::make_shared<Command>();
  command->after.push_back(event->record);
  for (StreamState* other : event->context->streams) other->wanted |= other->last == event->record;
  enqueue(lock, *stream, std::move(command));
  return Result::success;
}

Result cuMemcpyAsync(Address to, Address from, std::size_t bytes, Stream handle) {
  Lock lock{big};
  Result error;
  StreamState* const stream = stream_for_command(lock, handle, error);
  if (stream == nullptr) return error;
  if (bytes == 0) return Result::success;
  // The program's own memory: the driver reads it at once, and writes it before it returns.
  const bool own_source = is_pageable(from);
  const bool own_target = is_pageable(to);
  std::byte* const source = own_source ? reinterpret_cast<std::byte*>(from) : reach(from, bytes, *stream->context);
  std::byte* const target = own_target ? reinterpret_cast<std::byte*>(to) : reach(to, bytes, *stream->context);
  if (source == nullptr || target == nullptr) return Result::invalid_value;
  note_use(from, bytes, false);
  note_use(to, bytes, true);
  auto command = std::make_shared<Command>();
  if (own_source) {
    auto staged = std::make_shared<std::vector<std::byte>>(source, source + bytes);
    command->run = [=] {
      bytes_copied.fetch_add(bytes, std::memory_order_relaxed);
      std::memcpy(target, staged->data(), bytes);
      return Result::success;
    };
  } else {
    if (!own_target && is_of_device(from) && is_of_device(to)) command->kind = "copy";
    command->run = [=] {
      bytes_copied.fetch_add(bytes, std::memory_order_relaxed);
      std::memmove(target, source, bytes);
      kicks.fetch_add(1, std::memory_order_relaxed);
      return Result::success;
    };
  }
  if (stream->capture && (own_source || own_target))
    misuse("memory that is not pinned is copied in a capture, which the fake does not know");
  const auto point = command->point;
  enqueue(lock, *stream, std::move(command));
  if (own_target) wait_for(lock, stream, point);
  return Result::success;
}

/// For rows that lie one after the other, as all users of it do.
Result cuMemcpy2DAsync(const RowsCopy* rows, Stream handle) {
  constexpr int any_memory = 4;
  const bool plain = rows->from.memory_type == any_memory && rows->to.memory_type == any_memory && rows->from.x == 0 &&
                     rows->from.y == 0 && rows->to.x == 0 && rows->to.y == 0;
  if (!plain || rows->from.pitch != rows->width || rows->to.pitch != rows->width)
    misuse("cuMemcpy2DAsync of rows with gaps, which the fake does not know");
  {
    const Lock lock{big};
    const auto is_in_device = [](Address address) { return !is_pageable(address) && is_of_device(address); };
    if (is_in_device(rows->from.device) && is_in_device(rows->to.device))
      misuse("cuMemcpy2DAsync within a device, which may refuse a pitch that is not cuMemAllocPitch()'s");
  }
  return cuMemcpyAsync(rows->to.device, rows->from.device, rows->width * rows->height, handle);
}

Result cuMemsetD8Async(Address to, unsigned char value, std::size_t bytes, Stream handle) {
  Lock lock{big};
  Result error;
  StreamState* const stream = stream_for_command(lock, handle, error);
  if (stream == nullptr) return error;
  std::byte* const target = reach(to, bytes, *stream->context);
  if (target == nullptr) return Result::invalid_value;
  auto command = std::make_shared<Command>();
  command->run = [=] {
    std::memset(target, value, bytes);
    return Result::success;
  };
  enqueue(lock, *stream, std::move(command));
  return Result::success;
}

Result cuLaunchHostFunc(Stream handle, void (*function)(void*), void* data) {
  Lock lock{big};
  Result error;
  StreamState* const stream = stream_for_command(lock, handle, error);
  if (stream == nullptr) return error;
  auto command = std::make_shared<Command>();
  command->run = [=] {
    const Permission none{false};
    function(data);
    return Result::success;
  };
  enqueue(lock, *stream, std::move(command));
  return Result::success;
}

Result cuStreamBatchMemOp(Stream handle, unsigned count, MemoryOperation* operations, unsigned flags) {
  if (!settings().memory_operations) return Result::not_supported;
  Lock lock{big};
  Result error;
  StreamState* const stream = stream_for_command(lock, handle, error);
  if (stream == nullptr) return error;
  if (count == 0 || count > 256 || flags != 0) return Result::invalid_value;
  for (unsigned i = 0; i < count; ++i)
    if (operations[i].address % 8 != 0 || reach(operations[i].address, 8, *stream->context) == nullptr)
      return Result::invalid_value;
  for (unsigned i = 0; i < count; ++i) {
    auto* const word = reinterpret_cast<std::atomic<std::uint64_t>*>(reach(operations[i].address, 8, *stream->context));
    const std::uint64_t value = operations[i].value;
    auto command = std::make_shared<Command>();
    command->value = value;
    const Range& range = *range_of(operations[i].address);
    const bool is_wait = operations[i].kind == MemoryOperation::Kind::wait_64;
    if (range.kind == Range::Kind::host_registered) command->kind = is_wait ? "wait" : "write";
    command->value_at = operations[i].address - range.base;
    if (is_wait) {
      command->word = word;
    } else {
      command->run = [=] {
        word->store(value, std::memory_order_release);
        kicks.fetch_add(1, std::memory_order_relaxed);
        return Result::success;
      };
    }
    enqueue(lock, *stream, std::move(command));
  }
  return Result::success;
}

Result cuStreamWaitValue64(Stream stream, Address word, std::uint64_t value, unsigned flags) {
  if (flags != wait_value_at_least) return Result::invalid_value;
  MemoryOperation one{MemoryOperation::Kind::wait_64, word, value, 0, 0, 0};
  return cuStreamBatchMemOp(stream, 1, &one, 0);
}

Result cuStreamWriteValue64(Stream stream, Address word, std::uint64_t value, unsigned flags) {
  if (flags != 0) return Result::invalid_value;
  MemoryOperation one{MemoryOperation::Kind::write_64, word, value, 0, 0, 0};
  return cuStreamBatchMemOp(stream, 1, &one, 0);
}

}  // namespace fake_cuda

extern "C" __attribute__((visibility("default"))) std::uint64_t fake_cuda_bytes_copied() {
  return fake_cuda::bytes_copied;
}

extern "C" __attribute__((visibility("default"))) std::uint64_t fake_cuda_events() {
  const fake_cuda::Hidden hidden;
  const fake_cuda::Lock lock{fake_cuda::big};
  return fake_cuda::events.size();
}

extern "C" __attribute__((visibility("default"))) std::uint64_t fake_cuda_timed_events() {
  return fake_cuda::timed_events;
}
