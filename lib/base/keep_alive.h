#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

namespace tutti {

/// Makes the kernel probe the other end of a TCP connection after `idle` without a packet, so that no firewall forgets
/// the connection (some do after four minutes). After five probes without an answer, a fifth of `idle` apart, the
/// connection ends with ETIMEDOUT. The kernel does not probe while sent data are not acknowledged.
///
/// TCP_USER_TIMEOUT would cover that, too, but also ends connections to peers that are alive and just do not read.
inline void keep_alive(int socket, std::chrono::milliseconds idle) noexcept {
  const auto whole_seconds = [](std::chrono::milliseconds time) {
    constexpr std::chrono::seconds least{1}, most{120};
    return static_cast<int>(std::clamp(std::chrono::ceil<std::chrono::seconds>(time), least, most).count());
  };
  const auto set = [socket](int level, int name, int value) {
    ::setsockopt(socket, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_KEEPIDLE, whole_seconds(idle));
  set(IPPROTO_TCP, TCP_KEEPINTVL, whole_seconds(idle / 5));
  set(IPPROTO_TCP, TCP_KEEPCNT, 5);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
}

}  // namespace tutti
