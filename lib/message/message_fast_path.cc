// A send is done when its link has taken all of it. A receive takes the next message from its peer's link if that is
// exactly the expected one (of that length, type and tag) and if no other receive or message waits. If the rest of that
// message is late, the engine receives it. Otherwise it joins the waiting receives, and its caller looks at the link
// for a moment more. If nothing comes, the engine takes the receive over.
//
// In an exchange the caller waits for its receive, so it can also wait until its own message has been read: the link
// may lend that message to the peer, which then copies it once. A peer that has no receive for it keeps a copy, as of
// any eager message, when its engine next looks.

#include "lib/message/message_fast_path.h"

#include <new>

#include "lib/base/internals.h"
#include "lib/group/context.h"
#include "lib/group/group.h"
#include "lib/message/messages.h"
#include "lib/observe/black_box_begin.h"
#include "tutti/options.h"

namespace tutti::detail {

using transport::Link;

namespace {

/// Longer messages go to the engine, which serves other links meanwhile and keeps deadlines.
constexpr int most_pieces = 16;

MessageStatus received_in(const MessageCall& call) { return {call.peer, call.tag, call.count / call.unit}; }

transport::FrameWords words_of(const MessageCall& call) noexcept {
  return transport::words_of(message_frame(transport::FrameKind::eager, call, call.bytes.size()));
}

}  // namespace

MessageFastPath::MessageFastPath(Messages& messages, MessageLinks& links, WaitingMessages& waiting,
                                 ActiveMessages& active)
    : messages_(messages), group_(messages.group()), links_(links), waiting_(waiting), active_(active) {}

bool MessageFastPath::may_try(int peer) const noexcept {
  const Context& context = group_.context();
  return context.inline_messages && peer != any_source && peer != group_.rank() && !context.injector &&
         !context.log.shows(Log::Level::trace, Log::Subsystem::p2p);
}

black_box::Flight MessageFastPath::note_begin(const MessageCall& call, Noted& last, std::int64_t now) noexcept {
  black_box::Box* const box = group_.context().black_box.get();
  if (!box) return {};
  if (last.is(call)) [[likely]] {
    if (last.form.name == 0) last.form = {black_box::new_form_name(), black_box::words_of(call.recorded(group_.id()))};
    return box->begin_again(last.form, 0, now);
  }
  last = {.peer = call.peer, .tag = call.tag, .count = call.count, .type = call.type};
  black_box::CallRecord recorded = call.recorded(group_.id());
  recorded.started = now;
  return box->begin(recorded);
}

// ---- Send --------------------------------------------------------------------------------------------------------

bool MessageFastPath::send(const MessageCall& call) noexcept {
  Engine& engine = *group_.context().engine;
  if (!may_try(call.peer) || !engine.try_own()) return false;
  const bool sent = may_send_eagerly(call) && send_owned(call);
  engine.disown();
  return sent;
}

bool MessageFastPath::send_owned(const MessageCall& call) noexcept {
  MessageLinks::Peer& peer = links_[call.peer];
  const std::int64_t begun = group_.context().recorder ? trace::ticks() : 0;
  if (!peer.out->try_send(words_of(call), call.bytes)) return false;
  links_.sent_eagerly(call.peer, call.bytes.size());
  if (begun) [[unlikely]]
    trace_send(call, begun, peer.messages_sent);
  const std::int64_t now = messages_.coarse_now();
  black_box::Flight flight = note_begin(call, last_send_, now);  // recorded while the message is on its way
  flight.land_inline(0, call.bytes.size(), now);
  return true;
}

bool MessageFastPath::may_send_eagerly(const MessageCall& call) noexcept {
  const MessageLinks::Peer& peer = links_[call.peer];
  const std::size_t length = call.bytes.size();
  if (group_.failing() || peer.lost || !peer.out) return false;
  if (links_.may_send_eagerly(peer, length)) return true;
  if (length > peer.out->longest_unasked()) return false;
  look_for_credit(peer, length);
  return !group_.failing() && !peer.lost && links_.may_send_eagerly(peer, length);
}

/// Credit may have come that nobody has looked for, since inline calls look at no other link. A pass over all links
/// would find it, but also messages whose receives are called next, and would keep a copy of each (sendrecv of 256 KiB
/// among 4 ranks on 2 cores: 41 us, and 35 so; back to back 69 and 36).
void MessageFastPath::look_for_credit(const MessageLinks::Peer& peer, std::size_t length) noexcept {
  Engine& engine = *group_.context().engine;
  if (!peer.credit_in || !peer.credit_in->is_pulled()) return engine.pass_and_look();
  while (!group_.failing() && !links_.may_send_eagerly(peer, length) && peer.credit_in->pull_piece(engine.sink())) {
  }
}

void MessageFastPath::trace_send(const MessageCall& call, std::int64_t begun, std::uint64_t order) noexcept {
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

std::optional<MessageStatus> MessageFastPath::receive(const MessageCall& call,
                                                      const std::shared_ptr<Pool<Message>>& pool) {
  if (!may_try(call.peer) || !group_.context().engine->try_own()) return std::nullopt;
  return receive_owned(call, pool);
}

/// Gives up the engine in any case.
std::optional<MessageStatus> MessageFastPath::receive_owned(const MessageCall& call,
                                                            const std::shared_ptr<Pool<Message>>& pool) {
  Engine& engine = *group_.context().engine;
  if (!may_receive(call.peer, *pool)) {
    engine.disown();
    return std::nullopt;
  }
  ShortWait wait = group_.context().short_wait();
  const std::int64_t now = messages_.coarse_now();
  black_box::Flight flight = note_begin(call, last_receive_, now);
  const Link::Taken taken = take_expected(call, wait);
  if (taken != Link::Taken::taken) return receive_late(call, pool, flight, taken, wait);
  flight.land_inline(0, call.bytes.size(), wait.has_yielded() ? messages_.coarse_now() : now);
  engine.disown();
  return received_in(call);
}

/// Gives up the engine in any case.
MessageStatus MessageFastPath::receive_late(const MessageCall& call, const std::shared_ptr<Pool<Message>>& pool,
                                            black_box::Flight flight, Link::Taken taken, ShortWait& wait) {
  Engine& engine = *group_.context().engine;
  Message& receive = begin_receive(call, pool, flight, taken);
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
  work.wait();  // throws what the receive failed with
  return work.status();
}

/// It must not fail, since the link may be writing to the caller's memory, and the engine is owned.
Message& MessageFastPath::begin_receive(const MessageCall& call, const std::shared_ptr<Pool<Message>>& pool,
                                        black_box::Flight flight, Link::Taken taken) noexcept {
  Message& receive = *spare_;
  receive.prepare(messages_, call, pool);
  receive.begin_inline(flight);
  active_.add(receive);
  if (taken == Link::Taken::begun) {
    messages_.receive_begun(receive);
  } else {
    messages_.start_receive(receive);
  }
  return receive;
}

bool MessageFastPath::may_receive(int peer, Pool<Message>& pool) noexcept {
  const Link* const in = links_[peer].in;
  if (group_.failing() || !in || !in->is_pulled()) return false;
  if (!spare_) spare_ = pool.take();
  return spare_ != nullptr;
}

/// Takes the next message if it is the expected one, and if no other receive or message is before it.
Link::Taken MessageFastPath::take_expected(const MessageCall& call, ShortWait& wait) noexcept {
  if (!waiting_.empty() || group_.context().recorder) return Link::Taken::something_else;
  MessageLinks::Peer& peer = links_[call.peer];
  const transport::FrameWords frame = words_of(call);
  Link::Taken taken = peer.in->take(frame, call.bytes, 0);
  while (taken == Link::Taken::nothing_there && wait.again()) taken = peer.in->take(frame, call.bytes, 0);
  if (taken != Link::Taken::taken) return taken;
  ++peer.messages_come;
  links_.consumed(call.peer, call.bytes.size());
  return taken;
}

void MessageFastPath::wait_a_little(const Message& receive, ShortWait& wait) noexcept {
  Link& in = *links_[receive.peer].in;
  for (int pieces = 0; pieces < most_pieces && !receive.over() && !group_.failing();) {
    if (in.pull_piece(group_.context().engine->sink()))
      ++pieces;
    else if (!wait.again())
      return;
  }
}

// ---- Exchange ----------------------------------------------------------------------------------------------------

MessageFastPath::Exchange MessageFastPath::exchange(const MessageCall& out, const MessageCall& in,
                                                    const std::shared_ptr<Pool<Message>>& pool) {
  Engine& engine = *group_.context().engine;
  if (!may_try(out.peer) || !may_try(in.peer) || !engine.try_own()) return {};
  if (may_send_eagerly(out)) {
    if (lend_owned(out, in, *pool)) return {true, exchange_lent(out, in, pool)};
    if (send_owned(out)) return {true, receive_owned(in, pool)};
  }
  engine.disown();
  return {};
}

/// True: the peer reads the message from its caller's memory, and exchange_lent() must follow.
bool MessageFastPath::lend_owned(const MessageCall& out, const MessageCall& in, Pool<Message>& pool) noexcept {
  Link& link = *links_[out.peer].out;
  if (!link.may_lend(out.bytes.size()) || !may_receive(in.peer, pool)) return false;
  if (!spare_send_) spare_send_ = pool.take();
  if (!spare_send_) spare_send_.reset(new (std::nothrow) Message(group_.context().engine));
  if (!spare_send_ || !link.try_lend(words_of(out), out.bytes)) return false;
  links_.sent_eagerly(out.peer, out.bytes.size());
  return true;
}

/// Gives up the engine in any case.
MessageStatus MessageFastPath::exchange_lent(const MessageCall& out, const MessageCall& in,
                                             const std::shared_ptr<Pool<Message>>& pool) {
  Engine& engine = *group_.context().engine;
  const std::int64_t now = messages_.coarse_now();
  black_box::Flight sending = note_begin(out, last_send_, now);
  black_box::Flight receiving = note_begin(in, last_receive_, now);
  ShortWait wait = group_.context().short_wait();
  const Link::Taken taken = take_expected(in, wait);
  if (taken == Link::Taken::taken) {
    receiving.land_inline(0, in.bytes.size(), now);
    if (is_returned_soon(out.peer)) {
      sending.land_inline(0, out.bytes.size(), now);
      engine.disown();
      return received_in(in);
    }
  }
  Work send = await_return(out, sending, pool);
  MessageStatus status = received_in(in);
  if (taken == Link::Taken::taken) {
    engine.disown();
  } else {
    try {
      status = receive_late(in, pool, receiving, taken, wait);
    } catch (const Error&) {
      Handle* const sends[]{&send};
      wait_any(sends);  // the peer may read the message until then
      throw;
    }
  }
  send.wait();
  return status;
}

bool MessageFastPath::is_returned_soon(int peer) noexcept {
  Link& out = *links_[peer].out;
  ShortWait wait = group_.context().short_wait();
  while (!out.is_returned())
    if (!wait.again()) return false;
  return true;
}

/// Leaves it to the engine to wait until the peer has read the message. It must not fail, since the peer may be
/// reading.
Work MessageFastPath::await_return(const MessageCall& out, black_box::Flight flight,
                                   const std::shared_ptr<Pool<Message>>& pool) noexcept {
  Message& send = *spare_send_;
  send.prepare(messages_, out, pool);
  send.begin_inline(flight);
  send.hand_over();
  send.order = links_[out.peer].messages_sent;
  active_.add(send);
  links_[out.peer].out->await_return(send.slot);
  Work work = Internals::make<Work>(static_cast<Pending*>(spare_send_.release()));
  group_.context().engine->submit_owned(send);
  return work;
}

}  // namespace tutti::detail
