#pragma once

#include <chrono>

#include "lib/base/net/socket.h"
#include "transport/transport.h"

namespace tutti::transport::tcp {

/// Notices that the other end of a connection acknowledges nothing any more.
class AcknowledgementCheck {
 public:
  /// Called every `pause`. How long something that was sent has waited for an acknowledgement, although it was sent at
  /// least twice; 0 where that is not so, or cannot be told. A peer that is alive but does not read acknowledges all
  /// the same.
  Clock::duration silence(net::SocketView socket, Clock::time_point now, std::chrono::milliseconds pause) noexcept;
  void reset() noexcept { since_ = Clock::time_point::max(); }

 private:
  Clock::time_point since_ = Clock::time_point::max();
};

}  // namespace tutti::transport::tcp
