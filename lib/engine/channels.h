#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "lib/engine/engine_interfaces.h"
#include "transport/transport.h"

namespace tutti::detail {

/// Finds the user of a link: passes what transports report to the user of the link's channel. On the thread that owns
/// the engine.
class Channels final : public transport::Sink {
 public:
  void attach(transport::Channel channel, ChannelUser& user);
  void detach(transport::Channel channel) noexcept;

 private:
  transport::Acceptance arrived(transport::Link& from, const transport::Frame& frame) noexcept override;
  void view(transport::Link& from, std::span<const std::byte> piece) noexcept override;
  void received(transport::Link& from) noexcept override;
  void sent(transport::Link& to, transport::Token token) noexcept override;
  void failed(transport::Link& link, const Error& reason) noexcept override;
  ChannelUser* user_of(transport::Link& link) noexcept;

  std::unordered_map<transport::Channel, ChannelUser*> users_;
  std::vector<transport::Link*> strangers_;  // links of channels that have no user yet, and so are not closed
};

}  // namespace tutti::detail
