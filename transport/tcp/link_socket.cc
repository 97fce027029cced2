// The sockets of links: set up for the path they are for. They are not Asio objects, although the Reactor that waits
// for them runs on Asio: Asio would register them a second time in the same epoll.

#include "transport/tcp/link_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <fstream>

#include "lib/base/system_calls.h"
#include "lib/base/system_error_text.h"
#include "tutti/error.h"

namespace tutti::transport::tcp {
namespace {

constexpr int backlog = 4096;  // of connections not yet accepted; the kernel cuts it to somaxconn

net::Socket open_socket(int family) { return net::Socket(system_calls::socket(family, net::stream, IPPROTO_TCP)); }

/// bbr paces what it sends, which halves the speed of loopback; the classic algorithms do not.
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

/// What the kernel lets a process ask for as a socket's send buffer; 0: it does not say.
int most_send_buffer() {
  static const int most = [] {
    int bytes = 0;
    std::ifstream{"/proc/sys/net/core/wmem_max"} >> bytes;
    return bytes;
  }();
  return most;
}

/// What is under way over loopback lies in the caches of the cores if there is little of it. A send buffer would grow
/// to several MiB otherwise; where the kernel permits only less than this it is left to itself: it would be too little.
/// A receive buffer would grow to the limit in tcp_rmem, 6 or 32 MiB. All to all that is enough to use up what the
/// kernel has for the sockets of a whole host; it drops what arrives then, and each of a stream's losses doubles the
/// time to the next attempt, so that a call stood still for a minute.
void keep_in_caches(const net::Socket& socket) {
  constexpr int sent = 512 << 10;  // the kernel takes twice as much, for what it adds
  constexpr int received = 1 << 20;
  if (most_send_buffer() >= sent) net::set_option(socket, SOL_SOCKET, SO_SNDBUF, sent);
  net::set_option(socket, SOL_SOCKET, SO_RCVBUF, received);
}

/// Each end chooses for what it sends.
void prepare(const net::Socket& socket, bool loopback, const std::string& congestion) {
  net::send_without_delay(socket);
  choose_congestion(socket, loopback, congestion);
  if (loopback) keep_in_caches(socket);
}

}  // namespace

net::Socket listen_on(const net::Address& address, std::chrono::seconds silence) {
  net::Socket socket = open_socket(address.family());
  const int error = socket ? net::listen_on(socket, address, backlog, silence) : errno;
  if (error != 0) throw Error(ErrorCode::system, "Cannot listen for TCP connections: " + refusal(error));
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

std::string probable_cause(int error) {
  return error == ETIMEDOUT
             ? "Nothing comes back on the connection between these ranks, as if a firewall had forgotten it; "
               "both processes may be alive"
             : "That process has probably died";
}

}  // namespace tutti::transport::tcp
