#include "lib/message/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/compute/kernels.h"
#include "lib/failure/control_message.h"
#include "lib/group/context.h"
#include "lib/group/group.h"
#include "tutti/options.h"

namespace tutti::detail {

using transport::Acceptance;
using transport::Frame;
using transport::FrameKind;
using transport::Link;
using transport::Token;

namespace {

/// The length of the whole message in bytes; nothing: no address space has as many.
std::optional<std::size_t> length_of(const Frame& frame) {
  const std::size_t size = size_of(static_cast<DataType>(frame.data_type));
  if (frame.elements > transport::max_length / size) return std::nullopt;
  return static_cast<std::size_t>(frame.elements) * size;
}

}  // namespace

Messages::Messages(Group& group, transport::Channel channel)
    : group_(group),
      pool_(std::make_shared<Pool<Message>>()),
      links_(group, channel),
      active_(group),
      incoming_(static_cast<std::size_t>(group.size())) {}

Messages::~Messages() = default;

Message& Messages::make(const MessageCall& call) {
  auto message = pool_->take();
  if (!message) message = std::make_unique<Message>(group_.context().engine);
  message->prepare(*this, call, pool_);
  return *message.release();
}

std::int64_t Messages::coarse_now() const noexcept { return group_.context().black_box ? black_box::coarse_now() : 0; }

// ---- Starting ----------------------------------------------------------------------------------------------------

void Messages::await_stream(Message& message) {
  static_cast<Pending&>(message).retain();
  awaiting_streams_.push_back(&message);
}

void Messages::stream_is_there(Message& message) {
  std::erase(awaiting_streams_, &message);
  message.engine().submit_owned(message);
  static_cast<Pending&>(message).release();
}

/// They were never begun, so the group does not count them as work that is pending.
void Messages::close() noexcept {
  for (Message* const message : std::exchange(awaiting_streams_, {})) {
    const Error error = group_.failing() ? Error{*group_.failure()}
                                         : Error{ErrorCode::aborted,
                                                 fmt::format("{}: the communicator ended before the stream got to the "
                                                             "call",
                                                             message->describe())};
    message->finish(&error);
    static_cast<Pending*>(message)->release();
  }
}

void Messages::start(Message& message) noexcept {
  active_.add(message);
  if (group_.failing()) return active_.end_failed(message, *group_.failure());
  if (message.kind == Message::Kind::receive) return start_receive(message);
  if (message.kind == Message::Kind::probe) return start_probe(message);
  if (message.peer == group_.rank()) return send_to_self(message);
  start_send(message);
}

void Messages::start_send(Message& message) noexcept {
  if (!links_.reach(message.peer)) return;
  MessageLinks::Peer& peer = links_[message.peer];
  message.order = ++peer.messages_sent;
  if (!links_.may_send_eagerly(peer, message.bytes.size())) return large_.request(message);
  peer.credit.spend(message.bytes.size());
  const Frame eager = message_frame(FrameKind::eager, message, message.bytes.size());
  if (links_.send(message.peer, eager, message.bytes, message.slot)) active_.end(message);
}

void Messages::send_to_self(Message& message) noexcept {
  message.order = ++links_[group_.rank()].messages_sent;
  const Envelope envelope{group_.rank(), message.tag, message.type, message.bytes.size(), message.order};
  if (Message* const receive = waiting_.receive_for(envelope)) {
    if (envelope.fits(*receive) && envelope.length > 0)
      std::memcpy(receive->bytes.data(), message.bytes.data(), envelope.length);
    active_.end_received(*receive, envelope);
    return active_.end(message);
  }
  Unexpected unexpected{.envelope = envelope};
  const bool is_large = envelope.length > EagerCredit::longest;
  if (is_large) {
    unexpected.local = &message;
  } else {
    unexpected.data = KeptBytes{message.bytes.size()};
    std::ranges::copy(message.bytes, unexpected.data.span().begin());
    unexpected.complete = true;
  }
  waiting_.await_receive(waiting_.keep(std::move(unexpected)));
  if (!is_large) active_.end(message);
}

void Messages::start_receive(Message& receive) noexcept {
  if (const auto waiting = waiting_.message_for(receive)) return take(receive, *waiting);
  waiting_.add(receive);
  links_.expect_from(receive.peer);
}

void Messages::receive_begun(Message& receive) noexcept {
  MessageLinks::Peer& peer = links_[receive.peer];
  active_.assign(receive, {receive.peer, receive.tag, receive.type, receive.bytes.size(), ++peer.messages_come});
  Incoming& incoming =
      incoming_from(receive.peer) = {.message = &receive, .kind = transport::FrameKind::eager, .memory = receive.bytes};
  incoming.arriving.begin(0);
}

void Messages::start_probe(Message& probe) noexcept {
  if (const Envelope* const waiting = waiting_.look_for(probe.peer, probe.tag)) {
    active_.assign(probe, *waiting);
    return active_.end(probe);
  }
  waiting_.add_probe(probe);
  links_.expect_from(probe.peer);
}

std::optional<MessageStatus> Messages::look_for(int peer, int tag) noexcept {
  if (const Envelope* const waiting = waiting_.look_for(peer, tag)) return waiting->status(1);
  if (peer != any_source && links_[peer].lost) group_.fail(*links_[peer].lost);
  links_.expect_from(peer);
  return std::nullopt;
}

/// Gives a kept message to the receive, at once or when the rest of it has come.
void Messages::take(Message& receive, Kept from) noexcept {
  if (!from->complete && !from->local) {
    from->taker = &receive;  // received() calls take() again
    return;
  }
  const Unexpected message = waiting_.remove(from);
  const Envelope& envelope = message.envelope;
  const std::span<const std::byte> data = message.local ? message.local->bytes : message.data.span();
  if (envelope.fits(receive) && !data.empty()) std::memcpy(receive.bytes.data(), data.data(), data.size());
  if (message.local) active_.end(*message.local);
  if (envelope.source != group_.rank()) links_[envelope.source].credit.release(data.size());
  if (message.request) return large_.grant(receive, envelope, message.sender_slot, data.size());
  if (envelope.source != group_.rank() && !message.granted) links_.consumed(envelope.source, data.size());
  active_.end_received(receive, envelope);
}

// ---- Reports of links ----------------------------------------------------------------------------------------------

bool Messages::knows(int rank) const noexcept { return group_.group_rank(rank) >= 0; }

Acceptance Messages::arrived(Link& from, const Frame& frame) noexcept {
  const int source = group_.group_rank(from.peer());
  MessageLinks::Peer& peer = links_[source];
  const Acceptance nothing{.kind = Acceptance::Kind::memory};
  const auto broken = [&](const char* what) {
    group_.fail(Error{ErrorCode::mismatch, fmt::format("{} sent {}", group_.name_of(source), what), source});
    return Acceptance{};
  };
  if (group_.failing()) return {};
  if (frame.kind == FrameKind::credit) {  // perhaps on a link of its own, while a message arrives on the other
    if (frame.length > 0) return broken("a credit with a payload");
    peer.credit.returned(frame.credit);
    peer.credit_in = &from;
    return nothing;
  }
  peer.in = &from;
  Incoming& incoming = incoming_from(source) = {.kind = frame.kind};
  if (frame.data_type >= data_type_count) return broken("an unknown element type");
  if (frame.kind == FrameKind::grant && frame.length > 0) return broken("a payload where none belongs");
  if (frame.tag < 0 && (frame.kind == FrameKind::eager || frame.kind == FrameKind::request))
    return broken("a negative tag");
  const auto type = static_cast<DataType>(frame.data_type);
  incoming.arriving.begin(frame.checksum);

  switch (frame.kind) {
    case FrameKind::eager:
      if (frame.length > EagerCredit::longest) return broken("an eager message above the limit");
      if (frame.length != length_of(frame)) return broken("an eager message of another length than its elements have");
      return arrived_first({source, frame.tag, type, static_cast<std::size_t>(frame.length), ++peer.messages_come},
                           frame);
    case FrameKind::request: {
      const auto length = length_of(frame);
      if (!length) return broken("a request for more bytes than an address space has");
      if (frame.length > std::min(*length, LargeMessages::longest_head))
        return broken("a request with more than the head of its message");
      return arrived_first({source, frame.tag, type, *length, ++peer.messages_come}, frame);
    }
    case FrameKind::grant:
      return large_.granted(source, frame) ? nothing : broken("a grant without a request");
    case FrameKind::bulk:
      incoming.message = large_.receive_of(source, frame);
      if (!incoming.message) {
        if (!keep_granted(source, frame)) return broken("a payload without a grant");
        return {.kind = Acceptance::Kind::memory, .memory = incoming.memory};
      }
      incoming.memory = incoming.message->bytes.subspan(incoming.message->head, static_cast<std::size_t>(frame.length));
      return {.kind = Acceptance::Kind::memory,
              .memory = incoming.memory,
              .copy = compute::streams(incoming.message->bytes.size()) ? group_.context().kernels->copy_streaming
                                                                       : nullptr};
    default:
      return broken("a frame that is not for messages");
  }
}

/// Handles a whole message, or a request with the head of one.
Acceptance Messages::arrived_first(const Envelope& envelope, const Frame& frame) noexcept {
  Incoming& incoming = incoming_from(envelope.source);
  const bool request = frame.kind == FrameKind::request;
  const auto length = static_cast<std::size_t>(frame.length);
  Message* const receive = waiting_.receive_for(envelope);
  if (receive && envelope.fits(*receive)) {
    incoming.message = receive;
    incoming.memory = receive->bytes.first(length);
    if (request)
      large_.grant(*receive, envelope, frame.sender_slot, length);
    else
      active_.assign(*receive, envelope);
    return {.kind = Acceptance::Kind::memory, .memory = incoming.memory};
  }
  if (request && !receive && length == 0 && may_grant_early(envelope)) return grant_early(envelope, frame.sender_slot);
  // If the message does not fit its receive, the receive fails when all of it is here.
  links_[envelope.source].credit.hold(length);
  const Kept kept = waiting_.keep({.envelope = envelope,
                                   .data = KeptBytes{length},
                                   .sender_slot = frame.sender_slot,
                                   .taker = receive,
                                   .request = request});
  if (!receive) waiting_.await_receive(kept);
  incoming.unexpected = kept;
  incoming.memory = kept->data.span();
  return {.kind = Acceptance::Kind::memory, .memory = incoming.memory};
}

/// Whether the message would have come eagerly if its sender had had credit, and may wait here for its receive.
bool Messages::may_grant_early(const Envelope& envelope) noexcept {
  const MessageLinks::Peer& peer = links_[envelope.source];
  return !peer.lost && !peer.credit_failed && links_.reach(envelope.source) &&
         envelope.length <= peer.out->longest_unasked() && envelope.length <= EagerCredit::longest &&
         peer.credit.has_room(envelope.length);
}

/// Handles a request that comes alone, since a message of that length has no head.
Acceptance Messages::grant_early(const Envelope& envelope, std::uint32_t sender_slot) noexcept {
  links_[envelope.source].credit.hold(envelope.length);
  waiting_.await_receive(waiting_.keep(
      {.envelope = envelope, .data = KeptBytes{envelope.length}, .sender_slot = sender_slot, .granted = true}));
  large_.grant_early(envelope.source, sender_slot);
  return {.kind = Acceptance::Kind::memory};
}

/// Handles the payload of a message that was granted early. False: it is none.
bool Messages::keep_granted(int source, const Frame& bulk) noexcept {
  const auto sender_slot = LargeMessages::granted_early(bulk);
  const auto kept = sender_slot ? waiting_.granted_to(source, *sender_slot) : std::nullopt;
  if (!kept || bulk.length != (*kept)->data.size()) return false;
  Incoming& incoming = incoming_from(source);
  incoming.unexpected = kept;
  incoming.memory = (*kept)->data.span();
  return true;
}

void Messages::received(Link& from) noexcept {
  if (group_.failing()) return;
  const int source = group_.group_rank(from.peer());
  if (&from != links_[source].in) return;  // it was a credit
  Incoming incoming = std::exchange(incoming_from(source), {});
  incoming.arriving.add(incoming.memory);
  if (incoming.arriving.broken())
    return group_.fail(incoming.arriving.complaint(group_, source, incoming.memory.size(), 1));
  if (incoming.unexpected) {
    const Kept kept = *incoming.unexpected;
    kept->complete = true;
    if (kept->taker) take(*kept->taker, kept);
    return;
  }
  if (!incoming.message || incoming.kind == FrameKind::request) return;
  active_.end(*incoming.message);
  if (incoming.kind == FrameKind::eager) links_.consumed(source, incoming.memory.size());
}

void Messages::sent(Link&, Token token) noexcept {
  if (group_.failing() || token == MessageLinks::no_token) return;
  active_.end(*active_.find(token));
}

/// A rank may send a message and leave before it is received. That its link takes no more credit does no harm until
/// there is something else to send to it. The link that brings its messages tells whether more will come.
void Messages::failed(Link& link, const Error& reason) noexcept {
  const int rank = group_.group_rank(link.peer());
  MessageLinks::Peer& peer = links_[rank];
  const bool takes_credit = &link == peer.aside;
  bool concerned = false;
  active_.for_each([&](const Message& message) {
    if (takes_credit && message.kind == Message::Kind::receive)
      concerned |= message.stage == Message::Stage::granted && message.status.source == rank;
    else
      concerned |= message.peer == rank || message.peer == any_source;
  });
  if ((&link != peer.out && !takes_credit) || concerned) return group_.link_failed(link, reason);
  if (takes_credit) {
    peer.credit_failed = reason;
  } else {
    peer.lost = group_.explain(link, reason);
  }
}

// ---- Messages that take long -------------------------------------------------------------------------------------

void Messages::ask(Message& message, bool overdue) noexcept {
  // The other ranks' answers are the same for all messages of this channel.
  if (!ask_limit_.pass(Clock::now(), overdue)) return;
  const bool is_known = message.peer != any_source && message.peer != group_.rank();
  const int peer = is_known ? group_.global_rank(message.peer) : -1;
  group_.context().failure_router->ask(group_,
                                       {.call = message.describe(), .peer = peer, .stalled = true, .overdue = overdue});
}

void Messages::give_up(Message& message) noexcept {
  const bool send = message.kind == Message::Kind::send;
  group_.give_up(message.peer == any_source ? "timed out: no rank has sent it"
                                            : fmt::format("timed out: {} has not {} it", group_.name_of(message.peer),
                                                          send ? "received" : "sent"),
                 message.peer, 0);
}

void Messages::probe_expired(Message& probe) noexcept {
  if (probe.peer != any_source && links_[probe.peer].lost) return group_.fail(*links_[probe.peer].lost);
  waiting_.remove_probe(probe);
  active_.end_failed(probe, Error{ErrorCode::timeout,
                                  fmt::format("timed out after {:g} s: no such message has come. Only this probe has "
                                              "failed, and the communicator goes on",
                                              std::chrono::duration<double>(probe.timeout).count()),
                                  probe.peer == any_source ? -1 : probe.peer});
}

bool Messages::describe_wait(Status& status, Which which) const {
  const Message* first = active_.oldest();
  if (!first) return false;
  active_.for_each([&](const Message& message) {
    if (first->asynchronous && !message.asynchronous) first = &message;
  });
  status.wait = first->kind == Message::Kind::send ? Status::Wait::send : Status::Wait::receive;
  status.asynchronous = first->asynchronous;
  status.doing = first->describe();
  std::vector<bool> is_awaited(static_cast<std::size_t>(group_.size()));
  active_.for_each([&](const Message& message) {
    if (which == Which::waited_for && message.asynchronous != first->asynchronous) return;
    if (message.peer != any_source && message.peer != group_.rank())
      is_awaited[static_cast<std::size_t>(message.peer)] = true;
  });
  for (int rank = 0; rank < group_.size(); ++rank)
    if (is_awaited[static_cast<std::size_t>(rank)]) group_.add_awaited(rank, group_.message_channel(), status);
  if (first->kind != Message::Kind::send && first->stage == Message::Stage::begun)
    status.unclaimed = waiting_.unclaimed(first->peer);
  return true;
}

void Messages::fail_all(const Error& reason) noexcept {
  waiting_.clear();
  links_.clear();
  incoming_.assign(incoming_.size(), {});
  active_.for_each([&](Message& message) { active_.end_failed(message, reason); });
}

}  // namespace tutti::detail
