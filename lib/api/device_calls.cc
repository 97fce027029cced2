// Calls on device memory. Each becomes the call on pinned memory that a program could have made itself, with the copies
// before and after it in the order of the stream.

#include "lib/api/device_calls.h"

#include <fmt/format.h>

#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "lib/api/persistent.h"
#include "lib/api/stream_calls.h"
#include "lib/api/stream_capture.h"
#include "lib/base/fork_mark.h"
#include "lib/base/gpu/commands.h"
#include "lib/base/internals.h"
#include "lib/gpu/device_call.h"
#include "lib/group/context.h"
#include "tutti/communicator.h"
#include "tutti/gpu.h"

namespace tutti {
namespace detail {
namespace {

using Buffers = std::vector<DeviceStream::Buffer>;

/// `buffers`: those that are not empty.
DeviceStream stream_of(const std::string& name, const Buffers& buffers, OnStream on) {
  return buffers.empty() ? DeviceStream{name, nullptr, on.stream} : DeviceStream{name, buffers, on.stream};
}

DeviceStream stream_of(const Request& request, const Group& group, OnStream on) {
  const std::string name = name_on_rank(request, group);
  const int rank = group.rank();
  Buffers buffers;
  if (uses_input(request, rank)) buffers.push_back({"in", request.input.data});
  if (uses_output(request, rank)) buffers.push_back({"out", request.output.data});
  DeviceStream stream = stream_of(name, buffers, on);
  stream.prepare(name);
  return stream;
}

std::shared_ptr<const Staging> staging_of(const DeviceStream& stream, MessageCall& call) {
  const cuda::Current current{stream.context()};
  const Buffer data{call.bytes.data(), call.count, call.type, call.unit};
  if (call.kind == Message::Kind::send) {
    const auto staging = std::make_shared<const Staging>(ConstBuffer{data.data, data.count, data.type, data.unit});
    call.bytes = {static_cast<std::byte*>(const_cast<void*>(staging->request().input.data)), call.bytes.size()};
    return staging;
  }
  const auto staging = std::make_shared<const Staging>(data);
  call.bytes = {static_cast<std::byte*>(staging->request().output.data), call.bytes.size()};
  return staging;
}

std::shared_ptr<const Staging> staging_of(const DeviceStream& stream, const Request& request, int rank) {
  const cuda::Current current{stream.context()};
  return std::make_shared<const Staging>(request, rank);
}

}  // namespace

void abort_for_all(Group& group, const std::string& call, const std::exception& error) {
  group.context().engine->exclusively([&] { group.abort(error.what()); });
  const auto* const own = dynamic_cast<const Error*>(&error);
  throw Error{own ? own->code() : ErrorCode::system, fmt::format("{}: {}", call, error.what()), group.rank()};
}

bool uses_memory(const Request& request, int rank) { return uses_input(request, rank) || uses_output(request, rank); }

template <class Part>
auto DeviceCopies::or_abort(const Part& part) const {
  try {
    return part();
  } catch (const std::exception& error) {
    abort_for_all(group_, name_, error);
  }
}

template <class Work>
void DeviceCopies::on_device(const Work& work) const {
  or_abort([&] {
    cuda::Commands commands{stream_.context(), stream_.stream()};
    const cuda::KnowsOfCapture knows;
    try {
      work(commands);
    } catch (...) {
      tutti::keep_for_ever(staging_);  // copies that are in the stream go on using it
      throw;
    }
  });
}

DeviceCopies::DeviceCopies(const Request& request, Group& group, const DeviceStream& stream)
    : group_(group),
      name_(name_on_rank(request, group)),
      stream_(stream),
      staging_(or_abort([&] { return staging_of(stream_, request, group.rank()); })) {}

DeviceCopies::DeviceCopies(MessageCall& call, Group& group, OnStream on)
    : group_(group),
      name_(fmt::format("{} on rank {} of {}", call.name(), group.rank(), group.size())),
      stream_(stream_of(name_, call.bytes.empty() ? Buffers{} : Buffers{{"data", call.bytes.data()}}, on)),
      staging_([&] {
        stream_.prepare(name_);
        stream_.refuse_capture(name_,
                               "messages go through memory of the host: send and receive outside of the capture");
        return or_abort([&] { return staging_of(stream_, call); });
      }()) {}

bool DeviceCopies::may_wait_on_device() const { return !group_.context().threads && stream_.can_wait_for_host(); }

void DeviceCopies::fetch_input() const {
  on_device([&](cuda::Commands& commands) {
    staging_->copy_input(commands);
    cuda::driver().cuStreamSynchronize(commands.stream());
  });
}

void DeviceCopies::deliver_output() const {
  on_device([&](cuda::Commands& commands) {
    staging_->copy_output(commands);
    cuda::driver().cuStreamSynchronize(commands.stream());
  });
}

void DeviceCopies::deliver_output(std::size_t bytes) const {
  on_device([&](cuda::Commands& commands) {
    staging_->copy_output(commands, bytes);
    cuda::driver().cuStreamSynchronize(commands.stream());
  });
}

namespace {

Work start_on_device(CommunicatorState& state, const DeviceCopies& copies, std::chrono::milliseconds timeout) {
  Group& group = state.group;
  Engine& engine = *group.context().engine;
  Operation& operation = state.collectives.make(copies.request());
  operation.await_input();
  operation.asynchronous = true;
  auto& call = *new DeviceCall{group.context().engine,
                               copies.staging(),
                               operation,
                               [&operation] { operation.input_is_there(); },
                               timeout.count() > 0 ? timeout : group.context().timeout,
                               operation.describe()};
  if (const auto traced = state.traced(copies.stream(), *copies.staging())) {
    operation.then([traced, &operation](const Error*) { traced->begins(operation.frame()); });
    call.trace_as(traced);
  }
  call.on_device = copies.stream().place();
  Work work = Internals::make<Work>(&call);
  copies.on_device([&](cuda::Commands& commands) {
    call.enqueue(commands, [&] {
      engine.submit(call);
      engine.submit(operation);
    });
  });
  return work;
}

}  // namespace

namespace {

/// Puts a checked collective into the graph into which its stream is being captured.
Work capture(Communicator& comm, CommunicatorState& state, const Request& request, const DeviceStream& stream,
             bool asynchronous) {
  const std::string name = name_on_rank(request, state.group);
  if (!asynchronous)
    stream.refuse_capture(name, "it cannot wait for its result: start it, by comm.async(), or in C with `work`");
  if (!state.streams_are_decided())
    stream.refuse_capture(name,
                          "the ranks have not agreed yet how calls run: make one on device memory with this "
                          "communicator before the capture");
  StreamCalls* const streams = state.streams_if_any();
  const std::optional<StreamCalls::Planned> planned = streams ? streams->plan(request) : std::nullopt;
  if (!planned)
    stream.refuse_capture(name,
                          "it goes through memory of the host, where a thread has to act: make it outside of the "
                          "capture, give memory of gpu::allocate() or gpu::register_memory(), or set "
                          "TUTTI_GPU_MODE=streams (docs/gpu.md)");
  return streams->graphs().add(comm, request, *planned, stream);
}

}  // namespace

void check_on_device(const Request& request, const Group& group, OnStream on) { stream_of(request, group, on); }

Work call_on_device(Communicator& comm, const std::shared_ptr<CommunicatorState>& state, const Request& request,
                    OnStream on, bool asynchronous) {
  Group& group = state->group;
  group.context().engine->get_helper();
  const DeviceStream stream = stream_of(request, group, on);
  if (stream.capture()) return capture(comm, *state, request, stream, asynchronous);
  if (StreamCalls* const streams = state->streams(comm, stream))
    if (const std::optional<StreamCalls::Planned> planned = streams->plan(request))
      return streams->start(request, *planned, stream, asynchronous);
  if (!uses_memory(request, group.rank())) {
    if (!asynchronous) {
      Internals::perform(comm, request);
      return Work{};
    }
    Work work = Internals::start(comm, request);
    Internals::pending(work)->on_device = stream.place();
    return work;
  }
  const DeviceCopies copies{request, group, stream};
  if (asynchronous && copies.may_wait_on_device()) return start_on_device(*state, copies, request.timeout);
  copies.fetch_input();
  Internals::perform(comm, copies.request());
  copies.deliver_output();
  return Work{};
}

Work start_on_device(CommunicatorState& state, const DeviceCopies& copies, const MessageCall& call) {
  Group& group = state.group;
  Engine& engine = *group.context().engine;
  Messages& messages = state.messages;
  Message& message = messages.make(call);
  message.asynchronous = true;
  engine.exclusively([&] { messages.await_stream(message); });
  // Called only while the message is not over, so that its communicator is there.
  auto& device_call = *new DeviceCall{
      group.context().engine, copies.staging(), message, [&messages, &message] { messages.stream_is_there(message); },
      call.timeout,           call.describe()};
  device_call.on_device = copies.stream().place();
  Work work = Internals::make<Work>(&device_call);
  copies.on_device(
      [&](cuda::Commands& commands) { device_call.enqueue(commands, [&] { engine.submit(device_call); }); });
  return work;
}

}  // namespace detail

void Communicator::perform(const detail::Request& request, detail::OnStream on) {
  detail::check_request(request, detail::called(state_, request.collective));
  detail::call_on_device(*this, state_, request, on, false).wait();
}

Work Communicator::start_collective(const detail::Request& request, detail::OnStream on) {
  detail::check_request(request, detail::called(state_, request.collective));
  return detail::call_on_device(*this, state_, request, on, true);
}

Persistent Communicator::prepare_collective(const detail::Request& request, detail::OnStream on) {
  const detail::Group& group = detail::called(state_, request.collective);
  detail::check_request(request, group);
  detail::check_on_device(request, group, on);
  return detail::Internals::make<Persistent>(std::make_unique<detail::PersistentCall>(state_, request, on));
}

bool gpu::available() { return cuda::available(); }
std::string gpu::why_not() { return cuda::why_not(); }

}  // namespace tutti
