// How point to point ends when it does not end well, and what can be said about it meanwhile.

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/internals.h"
#include "lib/failure/control_message.h"
#include "lib/group/context.h"
#include "lib/group/group.h"
#include "lib/message/messages.h"
#include "tutti/options.h"

namespace tutti::detail {

using transport::Link;

namespace {

FailureDetails with_call(FailureDetails details, const Message& message) {
  details.collective = message.name();
  details.data_type = name_of(message.type);
  details.count = message.count;
  return details;
}

}  // namespace

void Messages::end_failed(Message& message, const Error& reason) noexcept {
  Error error{reason.code(),
              fmt::format("{} on rank {} of {}: {}", message.describe(), group_.rank(), group_.size(), reason.what()),
              reason.rank(), reason.operation()};
  Internals::set_details(error, with_call(reason.details(), message));
  end(message, &error);
}

Error Messages::does_not_fit(const Message& receive, const Envelope& envelope) const {
  const char* const type = name_of(envelope.type);
  const bool same_type = receive.type == envelope.type;
  const std::size_t elements = envelope.length / size_of(envelope.type);
  Error error{
      ErrorCode::truncated,
      fmt::format("{} on rank {} of {}: {} sent {} x {} with tag {}, which does not fit. That message is "
                  "dropped, and the communicator goes on: receive it {}",
                  receive.describe(), group_.rank(), group_.size(), group_.name_of(envelope.source), elements, type,
                  envelope.tag, same_type ? fmt::format("into {} elements", elements) : fmt::format("as {}", type)),
      envelope.source};
  Internals::set_details(error, with_call({}, receive));
  return error;
}

/// A rank may send, and leave before what it sent has been received: that its link takes no credit any more harms
/// nobody until there is something to say to it. Who gives credit has a link that tells whether more will come.
void Messages::failed(Link& link, const Error& reason) noexcept {
  const int rank = group_.group_rank(link.peer());
  PeerState& peer = state_of(rank);
  const bool takes_credit = &link == peer.aside;
  bool concerned = false;
  active_.for_each([&](const Message& message) {
    if (takes_credit && message.kind == Message::Kind::receive)
      concerned |= message.stage == Message::Stage::granted && message.status.source == rank;
    else
      concerned |= message.peer == rank || message.peer == any_source;
  });
  if ((&link != peer.out && !takes_credit) || concerned) return group_.link_failed(link, reason);
  peer.lost = group_.explain(link, reason);
}

void Messages::ask(Message& message, bool overdue) noexcept {
  // What all members say about this lane is the same for all its messages.
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

bool Messages::describe_wait(Status& status, Which which) const {
  const Message* first = active_.oldest();
  if (!first) return false;
  active_.for_each([&](const Message& message) {
    if (first->asynchronous && !message.asynchronous) first = &message;
  });
  status.wait = first->kind == Message::Kind::send ? Status::Wait::send : Status::Wait::receive;
  status.asynchronous = first->asynchronous;
  status.doing = first->describe();
  std::vector<bool> is_awaited(peers_.size());
  active_.for_each([&](const Message& message) {
    if (which == Which::waited_for && message.asynchronous != first->asynchronous) return;
    if (message.peer != any_source && message.peer != group_.rank())
      is_awaited[static_cast<std::size_t>(message.peer)] = true;
  });
  for (int rank = 0; rank < group_.size(); ++rank)
    if (is_awaited[static_cast<std::size_t>(rank)]) status.awaited.push_back(group_.global_rank(rank));
  if (first->kind != Message::Kind::send && first->stage == Message::Stage::begun)
    status.unclaimed = unclaimed(first->peer);
  return true;
}

std::string Messages::unclaimed(int peer) const {
  for (const Unexpected& waiting : unexpected_) {
    const Envelope& envelope = waiting.envelope;
    if (waiting.taker || (peer != any_source && peer != envelope.source)) continue;
    return fmt::format("a message of {} x {} from rank {} with tag {}", envelope.length / size_of(envelope.type),
                       name_of(envelope.type), envelope.source, envelope.tag);
  }
  return "";
}

void Messages::fail_all(const Error& reason) noexcept {
  matching_.clear();
  unexpected_.clear();
  probes_.clear();
  peers_.assign(peers_.size(), {});
  active_.for_each([&](Message& message) { end_failed(message, reason); });
}

}  // namespace tutti::detail
