// Plain non-blocking sockets. Asio reads and prints addresses; waiting for a socket is the Reactor's business, which
// also runs on Asio. The sockets are not Asio objects, since those would register a second time in the same epoll.

#include "transport/tcp/socket.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "lib/base/system_calls.h"
#include "lib/base/system_error_text.h"
#include "tutti/error.h"

namespace tutti::transport::tcp {
namespace {

constexpr int backlog = 4096;  // of connections not yet accepted; the kernel cuts it to somaxconn

void set_option(const Socket& socket, int level, int name, int value) {
  ::setsockopt(socket.get(), level, name, &value, sizeof value);
}

/// bbr paces what it sends, which halves the speed of loopback; the classic algorithms do not.
void choose_congestion(const Socket& socket, bool loopback, const std::string& wanted) {
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
void keep_in_caches(const Socket& socket) {
  constexpr int sent = 512 << 10;  // the kernel takes twice as much, for what it adds
  constexpr int received = 1 << 20;
  if (most_send_buffer() >= sent) set_option(socket, SOL_SOCKET, SO_SNDBUF, sent);
  set_option(socket, SOL_SOCKET, SO_RCVBUF, received);
}

Moved outcome(ssize_t result, int nothing) {
  if (result > 0) return {static_cast<std::size_t>(result), 0};
  if (result == 0) return {0, nothing};
  return {0, errno == EWOULDBLOCK ? EAGAIN : errno};
}

msghdr message_of(std::span<iovec> pieces) {
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  return message;
}

// The kernel takes 0.2 us longer to read a msghdr and its list of pieces than a pointer and a length. Copying so few
// bytes into one piece takes a fraction of that.
constexpr std::size_t short_write = 2048;

/// False: there are more than `room` takes.
bool put_together(std::span<const iovec> pieces, std::span<std::byte> room, iovec& all) {
  std::size_t bytes = 0;
  for (const iovec& piece : pieces) bytes += piece.iov_len;
  if (bytes > room.size()) return false;
  all = {room.data(), 0};
  for (const iovec& piece : pieces) {
    std::memcpy(room.data() + all.iov_len, piece.iov_base, piece.iov_len);
    all.iov_len += piece.iov_len;
  }
  return true;
}

/// A socket that connects to a port of this host from which the kernel also takes ports for clients may be connected to
/// itself when nobody listens there.
bool is_connected_to_itself(const Socket& socket) {
  sockaddr_storage ours{};
  sockaddr_storage theirs{};
  socklen_t our_size = sizeof ours;
  socklen_t their_size = sizeof theirs;
  return ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&ours), &our_size) == 0 &&
         ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&theirs), &their_size) == 0 &&
         our_size == their_size && std::memcmp(&ours, &theirs, our_size) == 0;
}

}  // namespace

std::optional<Address> parse_address(const std::string& host, unsigned short port) {
  asio::error_code failure;
  const asio::ip::address parsed = asio::ip::make_address(host, failure);
  if (failure) return std::nullopt;
  const asio::ip::tcp::endpoint endpoint(parsed, port);
  Address address;
  address.size = static_cast<socklen_t>(endpoint.size());
  address.loopback = parsed.is_loopback();
  std::memcpy(&address.storage, endpoint.data(), endpoint.size());
  return address;
}

std::optional<Address> parse_address(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return std::nullopt;
  }
  unsigned short port = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, failure] = std::from_chars(text.data() + colon + 1, end, port);
  if (failure != std::errc{} || stopped != end || port == 0) return std::nullopt;
  return parse_address(host, port);
}

Socket listen_on(const Address& address, std::chrono::seconds silence) {
  Socket socket(
      system_calls::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (socket) set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (socket) set_option(socket, IPPROTO_TCP, TCP_DEFER_ACCEPT, static_cast<int>(silence.count()));
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0 ||
      ::listen(socket.get(), backlog) != 0)
    throw Error(ErrorCode::system, "Cannot listen for TCP connections: " + refusal(errno));
  return socket;
}

std::string local_address(const Socket& socket) {
  asio::ip::tcp::endpoint endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  if (::getsockname(socket.get(), endpoint.data(), &size) != 0)
    throw Error(ErrorCode::system, "Cannot read the address of a listening socket: " + text_of(errno) + ".");
  endpoint.resize(size);
  const std::string host = endpoint.address().to_string();
  const std::string port = std::to_string(endpoint.port());
  return endpoint.address().is_v6() ? "[" + host + "]:" + port : host + ":" + port;
}

Socket accept_from(const Socket& listener, const std::string& congestion) {
  Socket socket;
  do {
    socket = Socket(system_calls::accept4(listener.get(), SOCK_NONBLOCK | SOCK_CLOEXEC));
  } while (!socket && (errno == EINTR || errno == ECONNABORTED));
  if (!socket) return socket;
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  asio::ip::tcp::endpoint peer;
  auto size = static_cast<socklen_t>(peer.capacity());
  const bool known = ::getpeername(socket.get(), peer.data(), &size) == 0;
  const bool loopback = known && peer.address().is_loopback();
  choose_congestion(socket, loopback, congestion);
  if (loopback) keep_in_caches(socket);
  return socket;
}

Socket connect_to(const Address& address, const std::string& congestion, int& error) {
  Socket socket(
      system_calls::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) {
    error = errno;
    return socket;
  }
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  choose_congestion(socket, address.loopback, congestion);
  if (address.loopback) keep_in_caches(socket);
  const bool done = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0;
  error = done ? 0 : errno == EINTR ? EINPROGRESS : errno;
  return socket;
}

int connected(const Socket& socket) {
  pollfd query{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&query, 1, 0) <= 0) return EINPROGRESS;
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error == 0 && is_connected_to_itself(socket) ? ECONNREFUSED : error;
}

bool is_unanswered(const Socket& socket, std::chrono::milliseconds time) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  int unacknowledged = 0;
  if (::ioctl(socket.get(), SIOCOUTQ, &unacknowledged) != 0) return false;
  // Where this host refuses to send, the kernel counts nothing as sent: it probes, and does not retransmit.
  return unacknowledged > 0 && (info.tcpi_retransmits > 0 || info.tcpi_probes > 0) &&
         std::cmp_greater_equal(info.tcpi_last_ack_recv, time.count());
}

void shut_down(const Socket& socket) noexcept {
  if (socket) ::shutdown(socket.get(), SHUT_RDWR);
}

bool Moved::failed() const { return error != 0 && error != EAGAIN; }

Moved read_some(const Socket& socket, std::span<iovec> pieces) {
  msghdr message = message_of(pieces);
  ssize_t result = 0;
  do {
    result = pieces.size() == 1 ? ::recv(socket.get(), pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT)
                                : ::recvmsg(socket.get(), &message, MSG_DONTWAIT);
  } while (result < 0 && errno == EINTR);
  return outcome(result, end_of_stream);
}

Moved write_some(const Socket& socket, std::span<iovec> pieces) {
  std::array<std::byte, short_write> together;
  iovec all;
  if (pieces.size() > 1 && put_together(pieces, together, all)) pieces = {&all, 1};
  msghdr message = message_of(pieces);
  constexpr int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
  ssize_t result = 0;
  do {
    result = pieces.size() == 1 ? ::send(socket.get(), pieces[0].iov_base, pieces[0].iov_len, flags)
                                : ::sendmsg(socket.get(), &message, flags);
  } while (result < 0 && errno == EINTR);
  return outcome(result, EAGAIN);
}

bool worth_retrying(int error) {
  return error == ECONNREFUSED || error == ECONNRESET || error == EPIPE || error == end_of_stream;
}

bool is_our_own(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM || error == EADDRNOTAVAIL ||
         error == EACCES || error == EPERM;
}

std::string text_of(int error) {
  return error == end_of_stream ? "the connection was closed without a goodbye" : refusal(error);
}

std::string probable_cause(int error) {
  return error == ETIMEDOUT
             ? "Nothing comes back on the connection between these ranks, as if a firewall had forgotten it; "
               "both processes may be alive"
             : "That process has probably died";
}

}  // namespace tutti::transport::tcp
