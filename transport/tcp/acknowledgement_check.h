#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

#include "lib/base/net/socket.h"
#include "lib/security/handshake.h"
#include "lib/security/tls_proxy.h"
#include "transport/transport.h"

namespace tutti::transport::tcp {

/// Notices that the other end of a link acknowledges nothing any more on one of its connections. Each has its own time,
/// since one that recovers says nothing about another.
class AcknowledgementCheck {
 public:
  /// How long something that was sent at least twice has waited for an acknowledgement; 0: there is no such thing, or
  /// it is not known. A peer that is alive but does not read acknowledges all the same. Must be called every `pause`;
  /// if the last call was several pauses ago, the time begins anew. `tls_proxies`: of which `sockets` are ends; null:
  /// they are the connections.
  Clock::duration silence(std::span<const net::Socket> sockets, Clock::time_point now, std::chrono::milliseconds pause,
                          const TlsProxies* tls_proxies) noexcept;
  /// The same, if bit i of `waiting` says whether something has waited on connection i for `pause`.
  Clock::duration silence(std::uint32_t waiting, Clock::time_point now, std::chrono::milliseconds pause) noexcept;
  void reset() noexcept { waiting_ = 0; }

 private:
  std::array<Clock::time_point, Stripe::most> since_{};  ///< of those in waiting_
  std::uint32_t waiting_ = 0;
  Clock::time_point last_{};
};

}  // namespace tutti::transport::tcp
