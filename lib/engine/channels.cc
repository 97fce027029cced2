#include "lib/engine/channels.h"

#include <algorithm>

namespace tutti::detail {

void Channels::attach(transport::Channel channel, ChannelUser& user) {
  users_.emplace(channel, &user);
  std::erase_if(strangers_, [&](transport::Link* link) {
    if (link->channel() != channel) return false;
    link->resume();
    return true;
  });
}

void Channels::detach(transport::Channel channel) noexcept { users_.erase(channel); }

ChannelUser* Channels::user_of(transport::Link& link) noexcept {
  if (link.context) return static_cast<ChannelUser*>(link.context);
  const auto found = users_.find(link.channel());
  if (found == users_.end() || !found->second->knows(link.peer())) return nullptr;
  link.context = found->second;
  return found->second;
}

transport::Acceptance Channels::arrived(transport::Link& from, const transport::Frame& frame) noexcept {
  if (ChannelUser* user = user_of(from)) return user->arrived(from, frame);
  // Credit answers messages of this rank, so the communicator is one that this rank has closed. A link that is parked
  // would never end.
  if (frame.kind == transport::FrameKind::credit && frame.length == 0) return {transport::Acceptance::Kind::memory};
  // The peer is ahead: it has made a sub-group that this rank is about to make. Or else it is no member of the channel,
  // and stays parked.
  if (!users_.contains(from.channel())) strangers_.push_back(&from);
  return {};
}

void Channels::view(transport::Link& from, std::span<const std::byte> piece) noexcept {
  user_of(from)->view(from, piece);
}

void Channels::received(transport::Link& from) noexcept {
  if (ChannelUser* user = user_of(from)) user->received(from);  // else it was credit
}

void Channels::sent(transport::Link& to, transport::Token token) noexcept { user_of(to)->sent(to, token); }

void Channels::failed(transport::Link& link, const Error& reason) noexcept {
  std::erase(strangers_, &link);
  if (ChannelUser* user = user_of(link)) user->failed(link, reason);
}

}  // namespace tutti::detail
