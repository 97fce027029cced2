// A send is done when its link has taken all of it. A receive takes the next message from its peer's link if that is
// exactly the expected one (of that length, type and tag) and if no other receive or message waits. If the rest of that
// message is late, the engine receives it. Otherwise it joins the waiting receives, and its caller looks at the link
// for a moment more. If nothing comes, the engine takes the receive over.

#include "lib/message/message_fast_path.h"

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
  const bool sent = send_owned(call);
  engine.disown();
  return sent;
}

bool MessageFastPath::send_owned(const MessageCall& call) noexcept {
  MessageLinks::Peer& peer = links_[call.peer];
  const std::size_t length = call.bytes.size();
  if (group_.failing() || peer.lost || !peer.out) return false;
  if (!links_.may_send_eagerly(peer, length)) {
    if (length > peer.out->longest_unasked()) return false;
    // Credit may have come that nobody has looked for, since inline calls look at no other link.
    group_.context().engine->pass_and_look();
    if (group_.failing() || peer.lost || !links_.may_send_eagerly(peer, length)) return false;
  }
  const std::int64_t begun = group_.context().recorder ? trace::ticks() : 0;
  if (!peer.out->try_send(transport::words_of(message_frame(transport::FrameKind::eager, call, length)), call.bytes))
    return false;
  ++peer.messages_sent;
  if (begun) [[unlikely]]
    trace_send(call, begun, peer.messages_sent);
  peer.credit.spend(length);
  const std::int64_t now = messages_.coarse_now();
  black_box::Flight flight = note_begin(call, last_send_, now);  // recorded while the message is on its way
  flight.land_inline(0, length, now);
  return true;
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

MessageFastPath::Exchange MessageFastPath::exchange(const MessageCall& out, const MessageCall& in,
                                                    const std::shared_ptr<Pool<Message>>& pool) {
  Engine& engine = *group_.context().engine;
  if (!may_try(out.peer) || !may_try(in.peer) || !engine.try_own()) return {};
  if (send_owned(out)) return {true, receive_owned(in, pool)};
  engine.disown();
  return {};
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
  if (taken == Link::Taken::taken) {
    flight.land_inline(0, call.bytes.size(), wait.has_yielded() ? messages_.coarse_now() : now);
    engine.disown();
    return MessageStatus{call.peer, call.tag, call.count / call.unit};
  }
  Message& receive = *spare_;
  receive.prepare(messages_, call, pool);
  receive.begin_inline(flight);
  active_.add(receive);
  if (taken == Link::Taken::begun) {
    messages_.receive_begun(receive);
  } else {
    messages_.start_receive(receive);
  }
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
  const transport::FrameWords frame =
      transport::words_of(message_frame(transport::FrameKind::eager, call, call.bytes.size()));
  Link::Taken taken = peer.in->take(frame, call.bytes);
  while (taken == Link::Taken::nothing_there && wait.again()) taken = peer.in->take(frame, call.bytes);
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

}  // namespace tutti::detail
