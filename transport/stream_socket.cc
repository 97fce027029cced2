// The sockets of links and of the failure detector, set up for their path. They are not Asio objects, although the
// Reactor that waits for them runs on Asio, since Asio would register them a second time in the same epoll.

#include "transport/stream_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <fstream>

namespace tutti::transport {
namespace {

/// Stands for cubic, or reno where that is not allowed.
constexpr const char* classic = "classic";

bool use_congestion(const net::Socket& socket, const std::string& name) {
  return ::setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

/// Chooses the congestion control. bbr paces what it sends, which halves the speed of connections within a host; the
/// classic algorithms do not.
void choose_congestion(const net::Socket& socket, const std::string& wanted) {
  if (wanted == classic) {
    if (!use_congestion(socket, "cubic")) use_congestion(socket, "reno");
  } else if (!wanted.empty()) {
    use_congestion(socket, wanted);
  }
}

/// The largest send buffer that the kernel grants a process; 0: unknown.
int most_send_buffer() {
  static const int most = [] {
    int bytes = 0;
    std::ifstream{"/proc/sys/net/core/wmem_max"} >> bytes;
    return bytes;
  }();
  return most;
}

/// If little data is in flight over loopback, it stays in the caches of the cores. A send buffer would grow to several
/// MiB; it is left alone if the kernel permits only less than this, which would be too little. A receive buffer would
/// grow to the limit in tcp_rmem, 6 or 32 MiB. In an all-to-all that is enough to use up what the kernel has for the
/// sockets of a host. It then drops what arrives, and each loss of a stream doubles the time to the next attempt, so
/// that a call once stood still for a minute.
void keep_in_caches(const net::Socket& socket) {
  constexpr int sent = 512 << 10;  // the kernel doubles it, for its own data
  constexpr int received = 1 << 20;
  if (most_send_buffer() >= sent) net::set_option(socket, SOL_SOCKET, SO_SNDBUF, sent);
  net::set_option(socket, SOL_SOCKET, SO_RCVBUF, received);
}

/// Sets up a socket that is connected to `peer`, over TCP. Each end does so for the data that it sends.
void prepare(const net::Socket& socket, const net::Address& peer, const std::string& congestion) {
  if (peer.is_unix()) return;
  const bool loopback = peer.is_loopback();
  net::send_without_delay(socket);
  choose_congestion(socket, loopback ? within_host(congestion) : congestion);
  if (loopback) keep_in_caches(socket);
}

}  // namespace

int refused_congestion(const std::string& name) {
  const net::Socket socket = net::make_stream(AF_INET);
  return socket && !use_congestion(socket, name) ? errno : 0;
}

net::Socket accept_from(const net::Socket& listener, const std::string& congestion) {
  net::Socket socket = net::accept_next(listener);
  if (socket) prepare(socket, net::remote_address(socket), congestion);
  return socket;
}

net::Socket connect_to(const net::Address& address, const Path& path, int& error) {
  net::Socket socket = net::make_stream(address.family());
  if (!socket) {
    error = errno;
    return socket;
  }
  prepare(socket, address, path.congestion);
  error = path.from ? net::start_from(socket, *path.from) : 0;
  if (error == 0) error = net::begin_connect(socket, address);
  return socket;
}

void stays_within_host(const net::Socket& socket, const std::string& congestion) {
  choose_congestion(socket, within_host(congestion));
}

std::string within_host(const std::string& congestion) { return congestion.empty() ? classic : congestion; }

bool worth_retrying(int error) {
  return error == ECONNREFUSED || error == ECONNRESET || error == EPIPE || error == net::end_of_stream ||
         error == net::queue_full;
}

}  // namespace tutti::transport
