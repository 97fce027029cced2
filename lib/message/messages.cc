#include "lib/message/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

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

constexpr Token no_token = ~Token{0};  // control frames: nobody waits for them

}  // namespace

Frame Messages::frame_of(FrameKind kind, const MessageCall& call, std::uint32_t slot, std::size_t length) {
  return {.kind = kind,
          .data_type = static_cast<std::uint8_t>(call.type),
          .operation = slot,
          .root = call.tag,
          .count = call.count,
          .length = length};
}

// ---- Starting ----------------------------------------------------------------------------------------------------

Messages::Messages(Group& group, transport::Channel channel)
    : group_(group),
      channel_(channel),
      pool_(std::make_shared<Pool<Message>>()),
      peers_(static_cast<std::size_t>(group.size())) {}

Messages::~Messages() = default;

Message& Messages::make(const MessageCall& call) {
  auto message = pool_->take();
  if (!message) message = std::make_unique<Message>(group_.context().engine);
  message->prepare(*this, call, pool_);
  return *message.release();
}

void Messages::end(Message& message, const Error* error) noexcept {
  message.note_end(error);
  active_.remove(message.slot);
  if (message.is_at_once()) return message.finish(error);
  group_.context().engine->finished(message, error);
}

void Messages::start(Message& message) noexcept {
  message.slot = active_.add(message);
  if (group_.failing()) return end_failed(message, *group_.failure());
  if (message.kind == Message::Kind::receive) return start_receive(message);
  if (message.kind == Message::Kind::probe) return start_probe(message);
  if (message.peer == group_.rank()) return send_to_self(message);
  start_send(message);
}

/// Where ranks share cores, to ask first costs switches of processes (send and receive of 64 KiB on 2 cores: 8 ranks 33
/// us eagerly and 43 lent, 16 ranks 109 and 139).
bool Messages::may_send_eagerly(const PeerState& peer, std::size_t length) const noexcept {
  const bool is_small = length <= eager_limit && (group_.context().oversubscribed || !peer.out->may_lend(length));
  return is_small && peer.credit.allows(length);
}

void Messages::start_send(Message& message) noexcept {
  if (!reach(message.peer)) return;
  PeerState& peer = state_of(message.peer);
  message.order = ++peer.messages_sent;
  if (may_send_eagerly(peer, message.bytes.size())) {
    peer.credit.spend(message.bytes.size());
    const Frame eager = frame_of(FrameKind::eager, message, message.slot, message.bytes.size());
    push(message.peer, eager, message.bytes, message.slot, &message);
    return;
  }
  message.stage = Message::Stage::asked;
  message.head = peer.head_of(message.bytes.size());
  if (message.head > 0) peer.credit.spend(message.head);
  const Frame request = frame_of(FrameKind::request, message, message.slot, message.head);
  push(message.peer, request, message.bytes.first(message.head), no_token, nullptr);
  look_out(message.peer);  // for its grant
}

void Messages::send_to_self(Message& message) noexcept {
  message.order = ++state_of(group_.rank()).messages_sent;
  const Envelope envelope{group_.rank(), message.tag, message.type, message.bytes.size(), message.order};
  if (const auto found = matching_.receive_for(envelope.source, envelope.tag)) {
    Message& receive = **found;
    if (fits(receive, envelope) && envelope.length > 0)
      std::memcpy(receive.bytes.data(), message.bytes.data(), envelope.length);
    deliver(receive, envelope);
    return end(message);
  }
  Unexpected& waiting = unexpected_.emplace_back();
  waiting.envelope = envelope;
  keep(std::prev(unexpected_.end()));
  if (envelope.length > eager_limit) {
    waiting.local = &message;
    return;
  }
  waiting.data.assign(message.bytes.begin(), message.bytes.end());
  waiting.complete = true;
  end(message);
}

void Messages::start_receive(Message& receive) noexcept {
  if (const auto waiting = matching_.message_for(receive.peer, receive.tag)) return take(receive, *waiting);
  matching_.post(receive.peer, receive.tag, &receive);
  look_out(receive.peer);
}

void Messages::start_probe(Message& probe) noexcept {
  if (const Kept* const waiting = matching_.look_for(probe.peer, probe.tag)) {
    assign(probe, (*waiting)->envelope);
    return end(probe);
  }
  probes_.push_back(&probe);
  look_out(probe.peer);
}

void Messages::keep(Kept kept) noexcept {
  const Envelope& envelope = kept->envelope;
  matching_.keep(envelope.source, envelope.tag, kept);
  std::erase_if(probes_, [&](Message* probe) {
    const bool found = (probe->peer == any_source || probe->peer == envelope.source) &&
                       (probe->tag == any_tag || probe->tag == envelope.tag);
    if (found) {
      assign(*probe, envelope);
      end(*probe);
    }
    return found;
  });
}

std::optional<MessageStatus> Messages::look_for(int peer, int tag) noexcept {
  if (const Kept* const waiting = matching_.look_for(peer, tag)) return status_of((*waiting)->envelope, 1);
  if (peer != any_source && state_of(peer).lost) group_.fail(*state_of(peer).lost);
  look_out(peer);
  return std::nullopt;
}

void Messages::look_out(int peer) noexcept {
  for (int rank = 0; rank < group_.size(); ++rank)
    if ((peer == any_source || peer == rank) && state_of(rank).in) state_of(rank).in->resume();
}

void Messages::take(Message& receive, Kept from) noexcept {
  if (!from->complete && !from->local) {
    from->taker = &receive;  // received() will call again
    return;
  }
  const Unexpected waiting = std::move(*from);
  unexpected_.erase(from);
  const Envelope& envelope = waiting.envelope;
  const std::span<const std::byte> data = waiting.local ? waiting.local->bytes : std::span(waiting.data);
  if (fits(receive, envelope) && !data.empty()) std::memcpy(receive.bytes.data(), data.data(), data.size());
  if (waiting.local) end(*waiting.local);
  if (waiting.request) return grant(receive, envelope, waiting.number, data.size());
  if (envelope.source != group_.rank()) consumed(envelope.source, data.size());
  deliver(receive, envelope);
}

// ---- Wire --------------------------------------------------------------------------------------------------------

void Messages::push(int peer, Frame frame, std::span<const std::byte> payload, Token token, Message* sender) noexcept {
  if (!reach(peer)) return;
  if (group_.context().checksum && !payload.empty()) frame.checksum = checksum_of(payload);
  if (group_.context().injector && !payload.empty()) [[unlikely]]
    payload = group_.context().injector->tampered(payload);
  if (state_of(peer).out->send(frame, payload, token) && sender) end(*sender);
}

bool Messages::reach(int peer) noexcept {
  PeerState& state = state_of(peer);
  if (state.lost) {
    group_.fail(*state.lost);
    return false;
  }
  if (!state.out) state.out = &group_.open(peer, channel_);
  return true;
}

MessageStatus Messages::status_of(const Envelope& envelope, std::size_t unit) {
  return {envelope.source, envelope.tag, envelope.length / size_of(envelope.type) / unit};
}

bool Messages::fits(const Message& receive, const Envelope& envelope) noexcept {
  return receive.type == envelope.type && envelope.length <= receive.bytes.size() &&
         (receive.unit == 1 || envelope.length % (receive.unit * size_of(receive.type)) == 0);
}

void Messages::assign(Message& receive, const Envelope& envelope) noexcept {
  receive.status = status_of(envelope, receive.type == envelope.type ? receive.unit : 1);
  receive.order = envelope.order;
  if (group_.context().recorder) [[unlikely]]
    receive.note_arrived();
}

void Messages::deliver(Message& receive, const Envelope& envelope) noexcept {
  assign(receive, envelope);
  if (fits(receive, envelope)) return end(receive);
  const Error error = does_not_fit(receive, envelope);
  end(receive, &error);
}

/// The credit for it may come after its receiver has left.
void Messages::consumed(int source, std::size_t bytes) noexcept {
  PeerState& peer = state_of(source);
  peer.credit.consume(bytes);
  if (!peer.credit.owes_lump() || peer.lost) return;
  if (!peer.aside) peer.aside = &group_.open_aside(source, channel_);
  const Frame credit{.kind = FrameKind::credit, .count = peer.credit.settle()};
  peer.aside->send(credit, {}, no_token);
}

void Messages::grant(Message& receive, const Envelope& envelope, std::uint32_t number, std::size_t head) noexcept {
  assign(receive, envelope);
  if (!fits(receive, envelope)) {
    // The sender still needs its answer, or it would wait for ever: a grant of nothing.
    push(envelope.source, {.kind = FrameKind::grant, .operation = number, .count = ~std::uint64_t{0}}, {}, no_token,
         nullptr);
    return deliver(receive, envelope);
  }
  receive.stage = Message::Stage::granted;
  receive.head = head;
  push(envelope.source, {.kind = FrameKind::grant, .operation = number, .count = receive.slot}, {}, no_token, nullptr);
}

bool Messages::knows(int rank) const noexcept { return group_.group_rank(rank) >= 0; }

Acceptance Messages::arrived(Link& from, const Frame& frame) noexcept {
  const int source = group_.group_rank(from.peer());
  PeerState& peer = state_of(source);
  const Acceptance nothing{.kind = Acceptance::Kind::memory};
  const auto broken = [&](const char* what) {
    group_.fail(Error{ErrorCode::mismatch, fmt::format("{} sent {}", group_.name_of(source), what), source});
    return Acceptance{};
  };
  if (group_.failing()) return {};
  if (frame.kind == FrameKind::credit) {  // perhaps on a link of its own, in the midst of a message on the other
    if (frame.length > 0) return broken("a credit with a payload");
    peer.credit.returned(frame.count);
    return nothing;
  }
  peer.incoming = {};
  peer.in = &from;
  if (frame.data_type >= data_type_count) return broken("an unknown element type");
  if (frame.kind == FrameKind::grant && frame.length > 0) return broken("a payload where none belongs");
  if (frame.root < 0 && (frame.kind == FrameKind::eager || frame.kind == FrameKind::request))
    return broken("a negative tag");
  const auto type = static_cast<DataType>(frame.data_type);
  peer.incoming.kind = frame.kind;
  peer.incoming.arriving.begin(frame.checksum);

  switch (frame.kind) {
    case FrameKind::eager:
      if (frame.length > eager_limit) return broken("an eager message above the limit");
      return arrived_first(
          peer, {source, frame.root, type, static_cast<std::size_t>(frame.length), ++peer.messages_come}, frame);
    case FrameKind::request: {
      if (frame.count > transport::max_length / size_of(type))
        return broken("a request for more than any memory holds");
      const std::size_t length = static_cast<std::size_t>(frame.count) * size_of(type);
      if (frame.length > std::min(length, head_limit)) return broken("a request with more than a message's beginning");
      return arrived_first(peer, {source, frame.root, type, length, ++peer.messages_come}, frame);
    }
    case FrameKind::grant:
      return arrived_grant(source, frame) ? nothing : broken("a grant nobody asked for");
    case FrameKind::bulk:
      if (Message* receive = granted(source, frame)) {
        peer.incoming.message = receive;
        peer.incoming.memory = receive->bytes.subspan(receive->head, static_cast<std::size_t>(frame.length));
        return {.kind = Acceptance::Kind::memory, .memory = peer.incoming.memory};
      }
      return broken("a payload nobody asked for");
    default:
      return broken("a frame that has no place on this lane");
  }
}

Message* Messages::active(std::uint64_t slot, Message::Kind kind, Message::Stage stage) const {
  Message* const message = active_.find(slot);
  return message && message->kind == kind && message->stage == stage ? message : nullptr;
}

bool Messages::arrived_grant(int source, const Frame& frame) noexcept {
  Message* send = active(frame.operation, Message::Kind::send, Message::Stage::asked);
  if (!send || send->peer != source) return false;
  send->stage = Message::Stage::granted;
  if (send->head > 0) state_of(source).credit.restore(send->head);
  if (frame.count == ~std::uint64_t{0}) {
    end(*send);  // the receiver has the error; a send is done when its message has been taken
    return true;
  }
  const std::span<const std::byte> rest = send->bytes.subspan(send->head);
  const Frame bulk = frame_of(FrameKind::bulk, *send, static_cast<std::uint32_t>(frame.count), rest.size());
  push(source, bulk, rest, send->slot, send);
  return true;
}

/// The receive for which this payload was asked.
Message* Messages::granted(int source, const Frame& frame) const {
  Message* receive = active(frame.operation, Message::Kind::receive, Message::Stage::granted);
  const bool fits =
      receive && receive->status.source == source && frame.length <= receive->bytes.size() - receive->head;
  return fits ? receive : nullptr;
}

/// A whole message, or a request with the beginning of one.
Acceptance Messages::arrived_first(PeerState& peer, const Envelope& envelope, const Frame& frame) noexcept {
  Incoming& incoming = peer.incoming;
  const bool request = frame.kind == FrameKind::request;
  const auto length = static_cast<std::size_t>(frame.length);
  Message* const receive = matching_.receive_for(envelope.source, envelope.tag).value_or(nullptr);
  if (receive && fits(*receive, envelope)) {
    incoming.message = receive;
    incoming.memory = receive->bytes.first(length);
    if (request)
      grant(*receive, envelope, frame.operation, length);
    else
      assign(*receive, envelope);
    return {.kind = Acceptance::Kind::memory, .memory = incoming.memory};
  }
  const Kept kept = unexpected_.emplace(unexpected_.end());
  kept->envelope = envelope;
  kept->data.resize(length);
  kept->taker = receive;  // one that does not fit: it gets its error when all is here
  kept->request = request;
  kept->number = frame.operation;
  if (!receive) keep(kept);
  incoming.unexpected = kept;
  incoming.memory = kept->data;
  return {.kind = Acceptance::Kind::memory, .memory = incoming.memory};
}

void Messages::received(Link& from) noexcept {
  if (group_.failing()) return;
  const int source = group_.group_rank(from.peer());
  if (&from != state_of(source).in) return;  // a credit
  Incoming incoming = std::exchange(state_of(source).incoming, {});
  incoming.arriving.add(incoming.memory);
  if (incoming.arriving.broken())
    return group_.fail(incoming.arriving.complaint(group_, source, incoming.memory.size(), 1));
  if (incoming.unexpected) {
    const Kept kept = *incoming.unexpected;
    kept->complete = true;
    if (kept->taker) take(*kept->taker, kept);
    return;
  }
  if (!incoming.message) return;
  if (incoming.kind == FrameKind::request) return;
  end(*incoming.message);
  if (incoming.kind == FrameKind::eager) consumed(source, incoming.memory.size());
}

void Messages::sent(Link&, Token token) noexcept {
  if (group_.failing() || token == no_token) return;
  end(*active_.find(token));
}

}  // namespace tutti::detail
