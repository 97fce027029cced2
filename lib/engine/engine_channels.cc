// Whose a link is: what the transports tell the engine goes to the user of the link's channel.

#include <algorithm>

#include "lib/engine/engine.h"

namespace tutti::detail {

void Engine::attach(transport::Channel channel, ChannelUser& user) {
  users_.emplace(channel, &user);
  std::erase_if(strangers_, [&](transport::Link* link) {
    if (link->channel() != channel) return false;
    link->resume();
    return true;
  });
}

void Engine::detach(transport::Channel channel, const Error* reason, Clock::time_point deadline) noexcept {
  for (const auto& transport : transports_) {
    if (reason) {
      transport->abort_channel(channel, *reason);
    } else {
      transport->close_channel(channel, deadline);
    }
  }
  std::erase_if(strangers_, [&](transport::Link* link) { return link->channel() == channel; });
  users_.erase(channel);
}

void Engine::abort_channel(transport::Channel channel, const Error& reason) noexcept {
  for (const auto& transport : transports_) transport->abort_channel(channel, reason);
}

ChannelUser* Engine::user_of(transport::Link& link) noexcept {
  if (link.context) return static_cast<ChannelUser*>(link.context);
  const auto found = users_.find(link.channel());
  if (found == users_.end() || !found->second->knows(link.peer())) return nullptr;
  link.context = found->second;
  return found->second;
}

transport::Acceptance Engine::arrived(transport::Link& from, const transport::Frame& frame) noexcept {
  if (ChannelUser* user = user_of(from)) return user->arrived(from, frame);
  strangers_.push_back(&from);  // a peer is ahead of us: it has made a sub-group that we are about to make
  return {};
}

void Engine::view(transport::Link& from, std::span<const std::byte> piece) noexcept {
  user_of(from)->view(from, piece);
}

void Engine::received(transport::Link& from) noexcept { user_of(from)->received(from); }

void Engine::sent(transport::Link& to, transport::Token token) noexcept { user_of(to)->sent(to, token); }

void Engine::failed(transport::Link& link, const Error& reason) noexcept {
  std::erase(strangers_, &link);
  if (ChannelUser* user = user_of(link)) user->failed(link, reason);
}

}  // namespace tutti::detail
