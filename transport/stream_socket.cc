// The sockets of links, set up for their path. They are not Asio objects, although the Reactor that waits for them runs
// on Asio, since Asio would register them a second time in the same epoll.

#include "transport/stream_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <fstream>

#include "lib/base/system_calls.h"
#include "lib/base/system_error_text.h"
#include "tutti/error.h"

namespace tutti::transport {
namespace {

constexpr int backlog = 4096;  // connections that are not accepted yet; the kernel cuts it to somaxconn

net::Socket open_socket(int family) { return net::Socket(system_calls::socket(family, net::stream, IPPROTO_TCP)); }

/// Chooses the congestion control. bbr paces what it sends, which halves the speed of loopback; the classic algorithms
/// do not.
void choose_congestion(const net::Socket& socket, bool loopback, const std::string& wanted) {
  const auto use = [&](const std::string& name) {
    return ::setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) ==
           0;
  };
  if (!wanted.empty()) {
    use(wanted);
  } else if (loopback && !use("cubic")) {
    use("reno");
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

/// Sets up a socket. Each end does so for the data that it sends.
void prepare(const net::Socket& socket, bool loopback, const std::string& congestion) {
  net::send_without_delay(socket);
  choose_congestion(socket, loopback, congestion);
  if (loopback) keep_in_caches(socket);
}

}  // namespace

net::Socket listen_on(const net::Address& address, std::chrono::seconds silence) {
  net::Socket socket = open_socket(address.family());
  const int error = socket ? net::listen_on(socket, address, backlog, silence) : errno;
  if (error != 0) throw Error(ErrorCode::system, "cannot listen for TCP connections: " + refusal(error));
  return socket;
}

net::Socket accept_from(const net::Socket& listener, const std::string& congestion) {
  net::Socket socket;
  do {
    socket = net::Socket(system_calls::accept4(listener.get(), SOCK_NONBLOCK | SOCK_CLOEXEC));
  } while (!socket && (errno == EINTR || errno == ECONNABORTED));
  if (socket) prepare(socket, net::remote_address(socket).is_loopback(), congestion);
  return socket;
}

net::Socket connect_to(const net::Address& address, const std::string& congestion, int& error) {
  net::Socket socket = open_socket(address.family());
  if (!socket) {
    error = errno;
    return socket;
  }
  prepare(socket, address.is_loopback(), congestion);
  error = net::begin_connect(socket, address);
  return socket;
}

bool worth_retrying(int error) {
  return error == ECONNREFUSED || error == ECONNRESET || error == EPIPE || error == net::end_of_stream;
}

}  // namespace tutti::transport
