#include "tutti/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/api/buffer_checks.h"
#include "lib/api/communicator_state.h"
#include "lib/api/device_calls.h"
#include "lib/api/own_parts.h"
#include "lib/api/persistent.h"
#include "lib/base/gpu/memory.h"
#include "lib/base/internals.h"
#include "lib/collective/call.h"
#include "lib/group/context.h"
#include "lib/message/message_errors.h"

namespace tutti {
namespace detail {
namespace {

constexpr int highest_tag = 1 << 30;

MessageCall checked_message(Group& group, Message::Kind kind, Buffer data, int peer, const MessageOptions& options,
                            Memory memory = Memory::host) {
  MessageCall call{.kind = kind,
                   .bytes = {static_cast<std::byte*>(data.data), data.count * size_of(data.type)},
                   .count = data.count,
                   .type = data.type,
                   .unit = data.unit,
                   .peer = peer,
                   .tag = options.tag,
                   .timeout = options.timeout.count() > 0 ? options.timeout : group.context().timeout};
  const bool receive = kind != Message::Kind::send;
  const auto refuse = [&](const std::string& why) {
    throw Error{ErrorCode::invalid_argument,
                fmt::format("{} on rank {} of {}: {}", call.name(), group.rank(), group.size(), why)};
  };
  if ((peer < 0 || peer >= group.size()) && !(receive && peer == any_source))
    refuse(fmt::format("{} is not a rank of this communicator; valid are 0 to {}{}", peer, group.size() - 1,
                       receive ? " and any_source" : ""));
  if ((options.tag < 0 || options.tag > highest_tag) && !(receive && options.tag == any_tag))
    refuse(fmt::format("tag {} is not in 0 to {}{}", options.tag, highest_tag, receive ? " nor any_tag" : ""));
  if (options.timeout.count() < 0) refuse(fmt::format("a timeout of {} ms is negative", options.timeout.count()));
  if (data.count > largest_count) refuse(impossible(data.count, data.unit));
  if (memory == Memory::host && !call.bytes.empty() && cuda::is_device_memory(call.bytes.data()))
    refuse(fmt::format(
        "the data are memory of a GPU ({}): give tutti::gpu::span(pointer, count), or in C on_device = 1", data.data));
  return call;
}

Work start(Group& group, Pending& pending) {
  pending.asynchronous = true;
  group.context().engine->submit(pending);
  return Internals::make<Work>(&pending);
}

/// The same for a caller that waits at once, so the helper thread need not prepare.
Work start_waited(Group& group, Pending& pending) {
  Work work = Internals::make<Work>(&pending);
  group.context().engine->require_other_owner();
  group.context().engine->submit(pending);
  return work;
}

/// Receives inline if the message comes soon.
MessageStatus receive(CommunicatorState& state, const MessageCall& call) {
  if (const auto status = state.messages.receive_inline(call)) return *status;
  Work work = start_waited(state.group, state.messages.make(call));
  work.wait();
  return work.status();
}

Pending& make_collective(CommunicatorState& state, const Request& request) {
  check_request(request, state.group);
  refuse_device_memory(request, state.group);
  if (!OwnParts::are_needed_for(request)) return state.collectives.make(request);
  const auto parts = std::make_shared<OwnParts>(request, state.group.rank());
  parts->collect_input();
  Pending& pending = state.collectives.make(parts->request());
  pending.before_done([parts] { parts->spread_output(); });
  return pending;
}

/// A function of its own, so that a call that is repeated saves no registers for this one.
[[gnu::noinline]] void perform_anew(CommunicatorState& state, const Request& request) {
  Group& group = state.group;
  check_request(request, group);
  refuse_device_memory(request, group);
  if (OwnParts::are_needed_for(request)) {
    OwnParts parts{request, group.rank()};
    parts.collect_input();
    start_waited(group, state.collectives.make(parts.request())).wait();
    return parts.spread_output();
  }
  InlineCalls* const inline_calls = state.collectives.inline_calls();
  if (inline_calls && inline_calls->run(request)) return;
  start_waited(group, state.collectives.make(request)).wait();
}

Buffer writable(ConstBuffer data) {
  return {const_cast<void*>(data.data), data.count, data.type, data.unit};
}  // a send only reads

/// Nothing for memory of the host.
std::optional<DeviceCopies> copies_of(MessageCall& call, Group& group, const MessageOptions& options, Memory memory) {
  if (memory == Memory::host) return std::nullopt;
  return std::make_optional<DeviceCopies>(call, group, OnStream{options.stream});
}

std::size_t bytes_of(const MessageCall& call, const MessageStatus& status) {
  return status.count * call.unit * size_of(call.type);
}

}  // namespace

void refuse_moved(std::string_view call) {
  throw Error{ErrorCode::invalid_argument,
              fmt::format("{}: this communicator is empty: it was moved from, or comes from a split() in which this "
                          "rank joined no group",
                          call)};
}

Communicator world(std::shared_ptr<Context> context) {
  constexpr std::uint64_t world_id = 0x7475747469;  // "tutti"; any even number that is unlikely to be a hash
  std::vector<int> everyone(static_cast<std::size_t>(context->size));
  for (std::size_t i = 0; i < everyone.size(); ++i) everyone[i] = static_cast<int>(i);
  return Internals::make<Communicator>(make_state(std::move(context), world_id << 1, std::move(everyone)));
}

}  // namespace detail

using detail::Message;

Communicator::Communicator(std::shared_ptr<detail::CommunicatorState> state) : state_(std::move(state)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  Communicator old{std::move(other)};
  std::swap(state_, old.state_);
  return *this;
}
Communicator::~Communicator() {
  if (!state_) return;
  const detail::Engine& engine = *state_->group.context().engine;
  if (!engine.is_own_process()) keep_for_ever(std::move(state_));
}

int Communicator::rank() const { return detail::group_of(state_, "rank").rank(); }
int Communicator::size() const { return detail::group_of(state_, "size").size(); }
int Communicator::local_rank() const {
  const detail::Group& group = detail::group_of(state_, "local_rank");
  const std::vector<int> local = group.local_ranks();
  return static_cast<int>(std::ranges::find(local, group.rank()) - local.begin());
}
int Communicator::local_size() const {
  return static_cast<int>(detail::group_of(state_, "local_size").local_ranks().size());
}

Work Communicator::start_collective(const detail::Request& request) {
  detail::Group& group = detail::called(state_, request.collective);
  group.context().engine->get_helper();
  return detail::start(group, detail::make_collective(*state_, request));
}

void Communicator::perform(const detail::Request& request) {
  detail::called(state_, request.collective);
  detail::InlineCalls* const inline_calls = state_->collectives.inline_calls();
  if (!inline_calls || !inline_calls->run_again(request)) detail::perform_anew(*state_, request);
}

Persistent Communicator::prepare_collective(const detail::Request& request) {
  detail::Group& group = detail::called(state_, request.collective);
  detail::check_request(request, group);
  detail::refuse_device_memory(request, group);
  return detail::Internals::make<Persistent>(std::make_unique<detail::PersistentCall>(state_, request));
}

Work Communicator::start_send(detail::ConstBuffer data, int to, const MessageOptions& options, detail::Memory memory) {
  detail::Group& group = detail::called(state_, "send");
  auto call = detail::checked_message(group, Message::Kind::send, detail::writable(data), to, options, memory);
  if (const auto copies = detail::copies_of(call, group, options, memory)) {
    group.context().engine->get_helper();
    if (copies->may_wait_on_device()) return detail::start_on_device(*state_, *copies, call);
    copies->fetch_input();
    Message& message = state_->messages.make(call);
    message.before_done([read = copies->staging()]() mutable { read.reset(); });
    message.on_device = copies->stream().place();
    return detail::start(group, message);
  }
  if (state_->messages.send_inline(call)) return Work{};
  group.context().engine->get_helper();
  return detail::start(group, state_->messages.make(call));
}

void Communicator::run_send(detail::ConstBuffer data, int to, const MessageOptions& options, detail::Memory memory) {
  detail::Group& group = detail::called(state_, "send");
  auto call = detail::checked_message(group, Message::Kind::send, detail::writable(data), to, options, memory);
  const auto copies = detail::copies_of(call, group, options, memory);
  if (copies) copies->fetch_input();
  if (state_->messages.send_inline(call)) return;
  detail::start_waited(group, state_->messages.make(call)).wait();
}

Work Communicator::start_recv(detail::Buffer data, int from, const MessageOptions& options, detail::Memory memory) {
  detail::Group& group = detail::called(state_, "recv");
  group.context().engine->get_helper();
  auto call = detail::checked_message(group, Message::Kind::receive, data, from, options, memory);
  if (const auto copies = detail::copies_of(call, group, options, memory)) {
    if (copies->may_wait_on_device()) return detail::start_on_device(*state_, *copies, call);
    Work work = detail::start_waited(group, state_->messages.make(call));
    work.wait();
    copies->deliver_output(detail::bytes_of(call, work.status()));
    return work;
  }
  return detail::start(group, state_->messages.make(call));
}

MessageStatus Communicator::run_recv(detail::Buffer data, int from, const MessageOptions& options,
                                     detail::Memory memory) {
  detail::Group& group = detail::called(state_, "recv");
  auto call = detail::checked_message(group, Message::Kind::receive, data, from, options, memory);
  const auto copies = detail::copies_of(call, group, options, memory);
  const MessageStatus status = detail::receive(*state_, call);
  if (copies) copies->deliver_output(detail::bytes_of(call, status));
  return status;
}

MessageStatus Communicator::run_sendrecv(detail::ConstBuffer out, int to, detail::Buffer in, int from,
                                         const MessageOptions& options, detail::Memory memory) {
  detail::Group& group = detail::called(state_, "sendrecv");
  auto out_call = detail::checked_message(group, Message::Kind::send, detail::writable(out), to, options, memory);
  auto in_call = detail::checked_message(group, Message::Kind::receive, in, from, options, memory);
  if (detail::overlap(out.data, out_call.bytes.size(), in.data, in_call.bytes.size()))
    throw Error{ErrorCode::invalid_argument,
                fmt::format("sendrecv on rank {} of {}: in and out overlap in a way that would overwrite what is sent "
                            "before it is used; give separate memory",
                            group.rank(), group.size())};
  const auto out_copies = detail::copies_of(out_call, group, options, memory);
  const auto in_copies = detail::copies_of(in_call, group, options, memory);
  if (out_copies) out_copies->fetch_input();
  MessageStatus status;
  const auto [sent, received] = state_->messages.exchange_inline(out_call, in_call);
  if (received) {
    status = *received;
  } else if (sent) {
    status = detail::receive(*state_, in_call);
  } else {
    Work receive = detail::start_waited(group, state_->messages.make(in_call));
    try {
      if (!state_->messages.send_inline(out_call)) detail::start_waited(group, state_->messages.make(out_call)).wait();
    } catch (...) {
      receive.wait();  // it has failed, too, and uses `in` until then
      throw;
    }
    receive.wait();
    status = receive.status();
  }
  if (in_copies) in_copies->deliver_output(detail::bytes_of(in_call, status));
  return status;
}

MessageStatus Communicator::probe(int from, const MessageOptions& options) {
  detail::Group& group = detail::called(state_, "probe");
  const auto call = detail::checked_message(group, Message::Kind::probe, {}, from, options);
  Work work = detail::start_waited(group, state_->messages.make(call));
  work.wait();
  return work.status();
}

std::optional<MessageStatus> Communicator::iprobe(int from, const MessageOptions& options) {
  detail::Group& group = detail::called(state_, "iprobe");
  const auto call = detail::checked_message(group, Message::Kind::probe, {}, from, options);
  std::optional<MessageStatus> found;
  std::optional<Error> failure;
  group.context().engine->exclusively([&] {
    group.context().engine->pass();
    if (!group.failing()) found = state_->messages.look_for(call.peer, call.tag);
    failure = group.failure();
  });
  if (failure) throw detail::failure_of(group, call, *failure);
  return found;
}

void Communicator::abort(std::string_view reason) { detail::called(state_, "abort").abort(reason); }

Communicator Communicator::shrink(std::chrono::milliseconds timeout) {
  detail::Group& group = detail::called(state_, "shrink");
  detail::Context& context = group.context();
  if (!context.failure_router->is_watched())
    throw Error{ErrorCode::unsupported,
                fmt::format("shrink on rank {} of {}: nobody watches the ranks of this communicator", rank(), size())};
  if (group.members().size() > detail::most_listed)
    throw Error{ErrorCode::unsupported, fmt::format("shrink on rank {} of {}: it cannot gather more than {} ranks",
                                                    rank(), size(), detail::most_listed)};
  detail::Report report;
  context.engine->exclusively([&] { report = context.failure_router->reunion_of(group); });
  const auto limit = deadline_after(timeout.count() > 0 ? timeout : context.timeout);
  const detail::Within within{group, "shrink()"};
  detail::Reunion reunion = context.failure_router->detector().reunite(report, limit);
  return detail::Internals::make<Communicator>(
      detail::make_state(group.shared_context(), reunion.group, std::move(reunion.members)));
}

std::string Communicator::chosen_algorithm(Collective collective, std::size_t bytes) const {
  detail::group_of(state_, "chosen_algorithm");
  return state_->collectives.planner().name_of_choice({.collective = collective, .bytes = bytes});
}

std::string Communicator::transport_to(int peer) const {
  const detail::Group& group = detail::group_of(state_, "transport_to");
  if (peer < 0 || peer >= group.size())
    throw Error{
        ErrorCode::invalid_argument,
        fmt::format("transport_to: {} is not a rank of this communicator; valid are 0 to {}", peer, group.size() - 1)};
  const auto* transport = group.context().peers[static_cast<std::size_t>(group.global_rank(peer))].transport;
  return transport ? transport->name() : "self";
}

}  // namespace tutti
