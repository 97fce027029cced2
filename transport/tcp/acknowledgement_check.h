#pragma once

#include <chrono>
#include <span>

#include "lib/base/net/socket.h"
#include "transport/transport.h"

namespace tutti::transport::tcp {

/// Notices that the other end of a link acknowledges nothing any more on one of its connections.
class AcknowledgementCheck {
 public:
  /// How long something that was sent at least twice has waited for an acknowledgement; 0: there is no such thing, or
  /// it is not known. A peer that is alive but does not read acknowledges all the same. Must be called every `pause`.
  Clock::duration silence(std::span<const net::Socket> sockets, Clock::time_point now,
                          std::chrono::milliseconds pause) noexcept;
  void reset() noexcept { since_ = Clock::time_point::max(); }

 private:
  Clock::time_point since_ = Clock::time_point::max();
};

}  // namespace tutti::transport::tcp
