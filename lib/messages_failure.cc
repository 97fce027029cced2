// How point to point ends when it does not end well, and what can be said about it meanwhile.

#include <fmt/format.h>

#include <algorithm>

#include "lib/context.h"
#include "lib/group.h"
#include "lib/messages.h"
#include "lib/watch/letter.h"
#include "tutti/options.h"

namespace tutti::detail {

using transport::Link;

void Messages::end_failed(Message& message, const Error& reason) noexcept {
  FailureDetails details = reason.details();
  details.collective = message.kind == Message::Kind::send ? "send" : "recv";
  details.data_type = name_of(message.type);
  details.count = message.count;
  Error error{reason.code(),
              fmt::format("{} on rank {} of {}: {}", message.describe(), group_.rank(), group_.size(), reason.what()),
              reason.rank(), reason.operation()};
  error.set_details(std::move(details));
  end(message, &error);
}

/// A rank may send, and leave before what it sent has been received: that its link takes no credit any more harms
/// nobody until there is something to say to it. Who gives credit has a link that tells whether more will come.
void Messages::failed(Link& link, const Error& reason) noexcept {
  const int rank = group_.group_rank(link.peer());
  PeerState& peer = state_of(rank);
  const bool takes_credit = &link == peer.aside;
  const bool concerned = std::ranges::any_of(active_, [&](const Message* message) {
    if (!message) return false;
    if (takes_credit && message->kind == Message::Kind::receive)
      return message->stage == Message::Stage::granted && message->status.source == rank;
    return message->peer == rank || message->peer == any_source;
  });
  if ((&link != peer.out && !takes_credit) || concerned) return group_.link_failed(link, reason);
  peer.lost = group_.explain(link, reason);
}

bool Messages::busy() const { return active_count_ > 0; }

void Messages::ask(Message& message, bool overdue) noexcept {
  group_.context().lookout->ask(group_, 0, message.describe(), true, overdue);
}

void Messages::give_up(Message& message) noexcept {
  const bool send = message.kind == Message::Kind::send;
  group_.give_up(
      fmt::format("timed out: {} never {} it", message.peer == any_source ? "no rank" : group_.name_of(message.peer),
                  send ? "received" : "sent"),
      message.peer, 0);
}

std::string Messages::busy_with() const {
  for (const Message* message : active_)
    if (message) return message->describe();
  return "";
}

void Messages::testify(Status& status) const {
  status.doing = busy_with();
  for (const Message* message : active_)
    if (message && message->peer != any_source && message->peer != group_.rank())
      status.awaited.push_back(group_.global_rank(message->peer));
}

void Messages::fail_all(const Error& reason) noexcept {
  posted_.clear();
  unexpected_.clear();
  peers_.assign(peers_.size(), {});
  for (std::size_t slot = 0; slot < active_.size(); ++slot)
    if (active_[slot]) end_failed(*active_[slot], reason);
}

}  // namespace tutti::detail
