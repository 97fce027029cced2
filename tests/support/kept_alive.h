#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace tutti::testing {

/// Number of connected TCP sockets of this process if the kernel sends keep-alive probes on each of them within four
/// minutes of silence; -1 if not on all.
inline int connections_kept_alive() {
  constexpr int most_descriptors = 1024;
  constexpr int four_minutes = 240;
  int count = 0;
  for (int fd = 0; fd < most_descriptors; ++fd) {
    const auto option = [fd](int level, int name) {
      int value = -1;
      socklen_t size = sizeof value;
      return ::getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
    };
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (option(SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP) continue;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (option(SOL_SOCKET, SO_KEEPALIVE) != 1 || option(IPPROTO_TCP, TCP_KEEPIDLE) >= four_minutes) return -1;
    ++count;
  }
  return count;
}

}  // namespace tutti::testing
