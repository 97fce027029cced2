#include "lib/collective/link_queues.h"

#include <algorithm>
#include <utility>

#include "lib/collective/collectives.h"
#include "lib/group/context.h"
#include "lib/group/group.h"

namespace tutti::detail {

using algorithms::Direction;
using algorithms::Verb;
using transport::Acceptance;
using transport::Frame;
using transport::Link;

LinkQueues::LinkQueues(Collectives& collectives, Group& group, transport::Channel channel)
    : collectives_(collectives),
      group_(group),
      channel_(channel),
      has_checksums_(group.context().checksum),
      is_traced_(group.context().recorder != nullptr),
      sends_(static_cast<std::size_t>(group.size())),
      receives_(static_cast<std::size_t>(group.size())) {}

// ---- Operations ------------------------------------------------------------------------------------------------

Fifo<LinkQueues::Turn>& LinkQueues::turns(const algorithms::Lane& lane) {
  const auto peer = static_cast<std::size_t>(lane.peer);
  return lane.direction == Direction::out ? sends_[peer].turns : receives_[peer].turns;
}

void LinkQueues::queue(Operation& operation) noexcept {
  const auto& lanes = operation.plan().lanes;
  for (std::uint32_t lane = 0; lane < lanes.size(); ++lane) {
    auto& queue = turns(lanes[lane]);
    queue.push({&operation, lane});
    if (queue.size() == 1) operation.lane_granted(lane);
  }
}

void LinkQueues::lane_done(Operation& operation, std::uint32_t lane) noexcept {
  auto& queue = turns(operation.plan().lanes[lane]);
  queue.pop();
  if (!queue.empty()) queue.front().operation->lane_granted(queue.front().lane);
}

bool LinkQueues::send(Operation& operation, std::uint32_t step, int peer, std::span<const std::byte> bytes) noexcept {
  ToPeer& target = sends_[static_cast<std::size_t>(peer)];
  const ExchangeProgress& begun = operation.exchange();
  if (begun.sent) {
    target.unsent += begun.lent ? 1 : 0;
    if (begun.lent) target.link->await_return(transport::Token{operation.slot} << 32 | step);
    return !begun.lent;
  }
  if (!target.link) target.link = &group_.open(peer, channel_);
  Frame frame = operation.frame();
  frame.length = bytes.size();
  if (has_checksums_) frame.checksum = checksum_of(bytes);
  if (operation.injector()) [[unlikely]]
    bytes = operation.injector()->tampered(operation.target(), step, bytes);
  ++target.messages;
  if (is_traced_) [[unlikely]]
    operation.trace().message_given(step, target.messages);
  const bool sent = target.link->send(frame, bytes, transport::Token{operation.slot} << 32 | step);
  target.unsent += sent ? 0 : 1;
  return sent;
}

bool LinkQueues::post(Operation& operation, std::uint32_t step, int peer, std::span<std::byte> bytes) noexcept {
  FromPeer& source = receives_[static_cast<std::size_t>(peer)];
  if (operation.exchange().received) {
    operation.count_received(bytes.size());
    return true;
  }
  source.posted.push({&operation, step, bytes, 0, {}});
  if (!source.link || operation.exchange().receives) return false;
  if (source.posted.size() == 1) expect_next(source);
  source.link->resume();
  return false;
}

/// Tells the link about the message that must come next.
void LinkQueues::expect_next(FromPeer& source) noexcept {
  const Posted& next = source.posted.front();
  const bool is_reduced = next.operation->plan().steps[next.step].verb == Verb::recv_reduce;
  source.link->expect(next.bytes.size(), is_reduced ? nullptr : next.bytes.data());
}

Link* LinkQueues::idle_to(int peer) const noexcept {
  const ToPeer& target = sends_[static_cast<std::size_t>(peer)];
  return target.unsent == 0 && target.turns.empty() ? target.link : nullptr;
}

Link* LinkQueues::idle_from(int peer) const noexcept {
  const FromPeer& source = receives_[static_cast<std::size_t>(peer)];
  return source.posted.empty() && source.turns.empty() ? source.link : nullptr;
}

// ---- Links -----------------------------------------------------------------------------------------------------

LinkQueues::FromPeer& LinkQueues::from_peer(const Link& link) {
  return receives_[static_cast<std::size_t>(group_.group_rank(link.peer()))];
}

Acceptance LinkQueues::arrived(Link& from, const Frame& frame) noexcept {
  FromPeer& source = from_peer(from);
  source.link = &from;
  if (group_.failing()) return {};
  if (source.posted.empty()) {
    collectives_.notice_leftover(group_.group_rank(from.peer()), frame);
    return {};
  }
  Posted& expected = source.posted.front();
  Frame wanted = expected.operation->frame();
  wanted.length = expected.bytes.size();
  wanted.checksum = frame.checksum;
  expected.arriving.begin(frame.checksum);
  if (frame != wanted) {
    if (!group_.is_in_doubt()) group_.suspect(collectives_.mismatch(group_.group_rank(from.peer()), frame, wanted));
    return {};
  }
  if (is_traced_) [[unlikely]]
    expected.operation->trace().message_arrives(expected.step);
  if (expected.operation->plan().steps[expected.step].verb == Verb::recv_reduce)
    return {.kind = Acceptance::Kind::views};
  return {.kind = Acceptance::Kind::memory,
          .memory = expected.bytes,
          .copy = expected.operation->bound().copy_of(expected.step),
          .senders_to_root = expected.operation->prepared().senders_to_root};
}

void LinkQueues::view(Link& from, std::span<const std::byte> piece) noexcept {
  if (group_.failing()) return;
  Posted& expected = from_peer(from).posted.front();
  expected.arriving.add(piece);
  expected.operation->reduce_piece(expected.step, expected.seen, piece);
  expected.seen += piece.size();
}

void LinkQueues::received(Link& from) noexcept {
  if (group_.failing()) return;
  FromPeer& source = from_peer(from);
  Posted done = source.posted.pop();
  if (!source.posted.empty()) expect_next(source);
  ++source.messages;
  if (done.seen == 0) done.arriving.add(done.bytes);
  if (done.arriving.broken())
    return group_.fail(
        done.arriving.complaint(group_, group_.group_rank(from.peer()), done.bytes.size(), done.operation->number()));
  if (is_traced_) [[unlikely]]
    done.operation->trace().message_received(done.step, source.messages);
  done.operation->count_received(done.bytes.size());
  done.operation->complete(done.step);
}

void LinkQueues::sent(Link& to) noexcept { --sends_[static_cast<std::size_t>(group_.group_rank(to.peer()))].unsent; }

// ---- Failures --------------------------------------------------------------------------------------------------

bool LinkQueues::is_awaited(int peer, const Operation& operation) const {
  const auto index = static_cast<std::size_t>(peer);
  const Fifo<Posted>& posted = receives_[index].posted;
  for (std::size_t i = 0; i < posted.size(); ++i)
    if (posted[i].operation == &operation) return true;
  if (sends_[index].unsent == 0) return false;
  return std::ranges::any_of(operation.plan().lanes, [peer](const algorithms::Lane& lane) {
    return lane.direction == Direction::out && lane.peer == peer;
  });
}

void LinkQueues::look_again(std::size_t peer) noexcept {
  if (receives_[peer].link && receives_[peer].posted.empty()) receives_[peer].link->resume();
}

void LinkQueues::clear() {
  sends_.assign(sends_.size(), {});
  receives_.assign(receives_.size(), {});
}

}  // namespace tutti::detail
