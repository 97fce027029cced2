// Sends and receives of a caller that waits, where the peer is quick: without an operation of the engine's, its clock
// and its passes over all links.
//
// A send that fits into its link is done with. A receive takes the next message straight from its peer's link, if it is
// just what is expected: whole, of that length, type and tag, and nothing before it waits for its receive or message.
// Else it is posted as any other, and its caller looks at the link for a moment more; if nothing comes, the engine
// takes it over as it is.

#include "lib/base/internals.h"
#include "lib/engine/short_wait.h"
#include "lib/group/context.h"
#include "lib/group/group.h"
#include "lib/message/messages.h"
#include "lib/observe/black_box_begin.h"
#include "tutti/options.h"

namespace tutti::detail {
namespace {

/// A long message is the engine's: other links move meanwhile, and deadlines are kept.
constexpr int most_pieces_at_once = 16;

}  // namespace

bool Messages::may_be_at_once(int peer) const noexcept {
  const Context& context = group_.context();
  return context.messages_at_once && peer != any_source && peer != group_.rank() && !context.injector &&
         !context.log.shows(Log::Level::trace, Log::Subsystem::p2p);
}

std::int64_t Messages::coarse_now() const noexcept { return group_.context().black_box ? black_box::coarse_now() : 0; }

black_box::Flight Messages::record_at_once(const MessageCall& call, std::int64_t now) noexcept {
  black_box::Box* const box = group_.context().black_box.get();
  if (!box) return {};
  black_box::Call recorded = call.recorded(group_.id());
  recorded.started = now;
  return box->begin(recorded);
}

// ---- Send --------------------------------------------------------------------------------------------------------

bool Messages::send_at_once(const MessageCall& call) noexcept {
  Engine& engine = *group_.context().engine;
  if (!may_be_at_once(call.peer) || !engine.try_own()) return false;
  const bool sent = send_owned(call);
  engine.disown();
  return sent;
}

bool Messages::send_owned(const MessageCall& call) noexcept {
  PeerState& peer = state_of(call.peer);
  const std::size_t length = call.bytes.size();
  if (group_.failing() || peer.lost || !peer.out || !may_send_eagerly(peer, length)) return false;
  const std::int64_t begun = group_.context().recorder ? trace::ticks() : 0;
  if (!peer.out->send_at_once(frame_of(transport::FrameKind::eager, call, 0, length), call.bytes)) return false;
  ++peer.messages_sent;
  if (begun) [[unlikely]]
    record_send(call, begun, peer.messages_sent);
  peer.credit.spend(length);
  const std::int64_t now = coarse_now();
  black_box::Flight flight = record_at_once(call, now);  // while it is on its way
  flight.land_at_once(0, length, now);
  return true;
}

void Messages::record_send(const MessageCall& call, std::int64_t begun, std::uint64_t order) noexcept {
  group_.context().recorder->add({.begin = begun,
                                  .end = trace::ticks(),
                                  .bytes = call.bytes.size(),
                                  .count = order,
                                  .step = static_cast<std::uint32_t>(call.tag),
                                  .peer = group_.global_rank(call.peer),
                                  .group = group_.trace_index(),
                                  .kind = trace::Kind::message_send,
                                  .type = static_cast<std::uint8_t>(call.type)});
}

// ---- Receive -----------------------------------------------------------------------------------------------------

std::optional<MessageStatus> Messages::receive_at_once(const MessageCall& call) {
  Engine& engine = *group_.context().engine;
  if (!may_be_at_once(call.peer) || !engine.try_own()) return std::nullopt;
  if (!may_receive_at_once(call.peer)) {
    engine.disown();
    return std::nullopt;
  }
  ShortWait wait = group_.context().short_wait();
  const std::int64_t now = coarse_now();
  black_box::Flight flight = record_at_once(call, now);
  if (take_expected(call, wait)) {
    flight.land_at_once(0, call.bytes.size(), wait.has_yielded() ? coarse_now() : now);
    engine.disown();
    return MessageStatus{call.peer, call.tag, call.count / call.unit};
  }
  Message& receive = *spare_;
  receive.prepare(*this, call, pool_);
  receive.begin_at_once(flight);
  receive.slot = active_.add(receive);
  start_receive(receive);
  wait_a_little(receive, wait);
  if (receive.over() && !receive.error()) {
    const MessageStatus status = receive.status;
    engine.disown();
    return status;
  }
  Work work = Internals::make<Work>(static_cast<Pending*>(spare_.release()));
  if (receive.over()) {
    engine.disown();
  } else {
    receive.hand_over();
    engine.submit_and_disown(receive);
  }
  work.wait();  // throws what went wrong
  return work.status();
}

bool Messages::may_receive_at_once(int peer) noexcept {
  const transport::Link* const in = state_of(peer).in;
  if (group_.failing() || !in || !in->is_pulled()) return false;
  if (!spare_) spare_ = pool_->take();
  return spare_ != nullptr;
}

/// Where nothing else is expected or has come, and the next message is just what is expected, no receive is posted.
bool Messages::take_expected(const MessageCall& call, ShortWait& wait) noexcept {
  if (matching_.has_receives() || !unexpected_.empty() || group_.context().recorder) return false;
  PeerState& peer = state_of(call.peer);
  const transport::FrameWords frame =
      transport::words_of(frame_of(transport::FrameKind::eager, call, 0, call.bytes.size()));
  transport::Link::Taken taken = peer.in->take(frame, call.bytes);
  while (taken == transport::Link::Taken::nothing_there && wait.again()) taken = peer.in->take(frame, call.bytes);
  if (taken != transport::Link::Taken::taken) return false;
  ++peer.messages_come;
  consumed(call.peer, call.bytes.size());
  return true;
}

void Messages::wait_a_little(const Message& receive, ShortWait& wait) noexcept {
  transport::Link& in = *state_of(receive.peer).in;
  for (int pieces = 0; pieces < most_pieces_at_once && !receive.over() && !group_.failing();) {
    if (in.pull_piece(group_.context().engine->sink()))
      ++pieces;
    else if (!wait.again())
      return;
  }
}

}  // namespace tutti::detail
