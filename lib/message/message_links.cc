#include "lib/message/message_links.h"

#include "lib/group/checksum.h"
#include "lib/group/context.h"
#include "lib/group/group.h"
#include "tutti/options.h"

namespace tutti::detail {

using transport::Frame;
using transport::FrameKind;

MessageLinks::MessageLinks(Group& group, transport::Channel channel)
    : group_(group), channel_(channel), peers_(static_cast<std::size_t>(group.size())) {}

bool MessageLinks::reach(int peer) noexcept {
  Peer& state = (*this)[peer];
  if (state.lost) {
    group_.fail(*state.lost);
    return false;
  }
  if (!state.out) state.out = &group_.open(peer, channel_);
  if (state.out != state.aside || !state.credit_failed) return true;
  group_.link_failed(*state.out, *state.credit_failed);  // it is one link for both, which tells of its failure once
  return false;
}

/// The answer does not depend on what was measured, so that programs in which a send waits for its receive can count on
/// it. Single copy in an exchange comes after it.
bool MessageLinks::may_send_eagerly(const Peer& peer, std::size_t length) const noexcept {
  return length <= EagerCredit::longest && length <= peer.out->longest_unasked() && peer.credit.allows(length);
}

bool MessageLinks::send(int peer, Frame frame, std::span<const std::byte> payload, transport::Token token) noexcept {
  if (!reach(peer)) return false;
  if (group_.context().checksum && !payload.empty()) frame.checksum = checksum_of(payload);
  if (group_.context().injector && !payload.empty()) [[unlikely]]
    payload = group_.context().injector->tampered(payload);
  return (*this)[peer].out->send(frame, payload, token);
}

void MessageLinks::expect_from(int peer) noexcept {
  for (int rank = 0; rank < group_.size(); ++rank)
    if ((peer == any_source || peer == rank) && (*this)[rank].in) (*this)[rank].in->resume();
}

/// The credit may arrive after the peer has left, so it has a link of its own, which may break without harm.
void MessageLinks::consumed(int source, std::size_t bytes) noexcept {
  Peer& peer = (*this)[source];
  peer.credit.consume(bytes);
  if (!peer.credit.owes_lump() || peer.lost || peer.credit_failed) return;
  if (!peer.aside) peer.aside = &group_.open_aside(source, channel_);
  const Frame credit{.kind = FrameKind::credit, .credit = peer.credit.settle()};
  peer.aside->send(credit, {}, no_token);
}

}  // namespace tutti::detail
