#include "lib/message/large_messages.h"

namespace tutti::detail {

using transport::Frame;
using transport::FrameKind;

namespace {

/// The receiver's number of a message without a receive is that of the send, and this.
constexpr std::uint32_t early = std::uint32_t{1} << 31;

std::size_t head_of(const MessageLinks::Peer& peer, std::size_t length) {
  const bool has_head = length > peer.out->longest_unasked() && !peer.out->may_lend(length);
  return has_head && peer.credit.allows(LargeMessages::longest_head) ? LargeMessages::longest_head : 0;
}

}  // namespace

void LargeMessages::request(Message& send) noexcept {
  MessageLinks::Peer& peer = links_[send.peer];
  send.stage = Message::Stage::asked;
  send.head = head_of(peer, send.bytes.size());
  if (send.head > 0) peer.credit.spend(send.head);
  Frame request = message_frame(FrameKind::request, send, send.head);
  request.sender_slot = send.slot;
  links_.send(send.peer, request, send.bytes.first(send.head), MessageLinks::no_token);
  links_.expect_from(send.peer);
}

void LargeMessages::grant(Message& receive, const Envelope& envelope, std::uint32_t sender_slot,
                          std::size_t head) noexcept {
  Frame grant{.kind = FrameKind::grant, .sender_slot = sender_slot};
  if (!envelope.fits(receive)) {  // the sender still waits for an answer
    grant.refused = true;
    links_.send(envelope.source, grant, {}, MessageLinks::no_token);
    return active_.end_received(receive, envelope);
  }
  active_.assign(receive, envelope);
  receive.stage = Message::Stage::granted;
  receive.head = head;
  grant.receiver_slot = receive.slot;
  links_.send(envelope.source, grant, {}, MessageLinks::no_token);
}

void LargeMessages::grant_early(int source, std::uint32_t sender_slot) noexcept {
  const Frame grant{.kind = FrameKind::grant, .sender_slot = sender_slot, .receiver_slot = sender_slot | early};
  links_.send(source, grant, {}, MessageLinks::no_token);
}

std::optional<std::uint32_t> LargeMessages::granted_early(const Frame& bulk) noexcept {
  if ((bulk.receiver_slot & early) == 0) return std::nullopt;
  return bulk.receiver_slot & ~early;
}

bool LargeMessages::granted(int source, const Frame& grant) noexcept {
  Message* const send = active_.find(grant.sender_slot, Message::Kind::send, Message::Stage::asked);
  if (!send || send->peer != source) return false;
  send->stage = Message::Stage::granted;
  if (send->head > 0) links_[source].credit.restore(send->head);
  if (grant.refused) {
    active_.end(*send);  // the error is the receiver's: a send is done when its message has been taken
    return true;
  }
  const std::span<const std::byte> rest = send->bytes.subspan(send->head);
  Frame bulk = message_frame(FrameKind::bulk, *send, rest.size());
  bulk.receiver_slot = grant.receiver_slot;
  if (links_.send(source, bulk, rest, send->slot)) active_.end(*send);
  return true;
}

Message* LargeMessages::receive_of(int source, const Frame& bulk) const noexcept {
  Message* const receive = active_.find(bulk.receiver_slot, Message::Kind::receive, Message::Stage::granted);
  if (!receive || receive->status.source != source) return nullptr;
  const std::size_t length = receive->status.count * receive->unit * size_of(receive->type);
  return bulk.length == length - receive->head ? receive : nullptr;
}

}  // namespace tutti::detail
