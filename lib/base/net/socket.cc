#include "lib/base/net/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>

#include "lib/base/system_calls.h"
#include "lib/base/system_error_text.h"
#include "tutti/error.h"

namespace tutti::net {
namespace {

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

using AskAddress = int(int, sockaddr*, socklen_t*);

Address ask(AskAddress* call, SocketView socket) {
  Address address;
  address.length = sizeof address.storage;
  if (call(socket.get(), address.get(), &address.length) != 0) return {};
  return address;
}

}  // namespace

void set_option(SocketView socket, int level, int name, int value) noexcept {
  ::setsockopt(socket.get(), level, name, &value, sizeof value);
}

void send_without_delay(SocketView socket) noexcept { set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1); }

// TCP_USER_TIMEOUT would also end a silent connection, but a connection to a peer that is alive and just does not read
// as well.
void keep_alive(SocketView socket, std::chrono::milliseconds idle) noexcept {
  const auto whole_seconds = [](std::chrono::milliseconds time) {
    constexpr std::chrono::seconds least{1}, most{120};
    return static_cast<int>(std::clamp(std::chrono::ceil<std::chrono::seconds>(time), least, most).count());
  };
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, whole_seconds(idle));
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, whole_seconds(idle / 5));
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 5);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
}

// ---- Connecting and listening --------------------------------------------------------------------------------------

Socket make_stream(int family) noexcept { return Socket(system_calls::socket(family, stream, 0)); }

int start_from(SocketView socket, Address from) noexcept {
  set_option(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);  // so that the port need only be free towards the peer
  from.set_port(0);
  return ::bind(socket.get(), from.get(), from.length) == 0 ? 0 : errno;
}

int begin_connect(SocketView socket, const Address& to) noexcept {
  if (::connect(socket.get(), to.get(), to.length) == 0) return 0;
  if (to.is_unix() && errno == EAGAIN) return queue_full;
  return errno == EINTR ? EINPROGRESS : errno;
}

/// A socket that connects to a port of this host from which the kernel also takes ports for clients may be connected to
/// itself when nobody listens there.
int connected(SocketView socket) noexcept {
  pollfd query{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&query, 1, 0) <= 0) return EINPROGRESS;
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  if (error != 0) return error;
  const Address remote = remote_address(socket);
  return remote.length > 0 && remote == local_address(socket) ? ECONNREFUSED : 0;
}

int listen_on(SocketView socket, const Address& address, int backlog, std::chrono::seconds silence) noexcept {
  if (!address.is_unix()) {
    set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    set_option(socket, IPPROTO_TCP, TCP_DEFER_ACCEPT, static_cast<int>(silence.count()));
  }
  const bool listens = ::bind(socket.get(), address.get(), address.length) == 0 && ::listen(socket.get(), backlog) == 0;
  return listens ? 0 : errno;
}

Socket listen_at(const Address& address, std::chrono::seconds silence) {
  Socket socket = make_stream(address.family());
  const int error = socket ? listen_on(socket, address, longest_queue, silence) : errno;
  if (error == 0) return socket;
  const std::string what =
      address.is_unix() ? "cannot listen on a Unix socket: " : "cannot listen for TCP connections: ";
  throw Error{ErrorCode::system, what + refusal(error)};
}

Socket accept_next(SocketView listener) noexcept {
  Socket socket;
  do {
    socket = Socket(system_calls::accept4(listener.get(), SOCK_NONBLOCK | SOCK_CLOEXEC));
  } while (!socket && (errno == EINTR || errno == ECONNABORTED));
  return socket;
}

bool is_connection_waiting(SocketView listener) noexcept {
  pollfd query{.fd = listener.get(), .events = POLLIN, .revents = 0};
  return ::poll(&query, 1, 0) > 0;
}

Address local_address(SocketView socket) noexcept { return ask(::getsockname, socket); }

Address remote_address(SocketView socket) noexcept { return ask(::getpeername, socket); }

static std::optional<ucred> credentials_of_peer(SocketView socket) noexcept {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return std::nullopt;
  return credentials;
}

long user_of_peer(SocketView socket) noexcept {
  const auto credentials = credentials_of_peer(socket);
  return credentials ? static_cast<long>(credentials->uid) : -1;
}

pid_t process_of_peer(SocketView socket) noexcept {
  const auto credentials = credentials_of_peer(socket);
  return credentials ? credentials->pid : -1;
}

void shut_down(SocketView socket) noexcept {
  if (socket.get() >= 0) ::shutdown(socket.get(), SHUT_RDWR);
}

// ---- Moving bytes --------------------------------------------------------------------------------------------------

bool wait_until_ready(SocketView socket, short events, Deadline deadline) noexcept {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Deadline::clock::now()).count();
    if (left <= 0) return false;
    pollfd query{.fd = socket.get(), .events = events, .revents = 0};
    const int ready = ::poll(&query, 1, static_cast<int>(std::min<decltype(left)>(left, INT_MAX)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;
  }
}

bool Moved::failed() const { return error != 0 && error != EAGAIN; }

Moved read_some(SocketView socket, std::span<iovec> pieces) noexcept {
  if (pieces.size() == 1)
    return read_some(socket, std::span{static_cast<std::byte*>(pieces[0].iov_base), pieces[0].iov_len});
  msghdr message = message_of(pieces);
  ssize_t result = 0;
  do {
    result = ::recvmsg(socket.get(), &message, MSG_DONTWAIT);
  } while (result < 0 && errno == EINTR);
  return outcome(result, end_of_stream);
}

Moved read_some(SocketView socket, std::span<std::byte> bytes) noexcept {
  ssize_t result = 0;
  do {
    result = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  } while (result < 0 && errno == EINTR);
  return outcome(result, end_of_stream);
}

Moved write_some(SocketView socket, std::span<iovec> pieces) noexcept {
  std::array<std::byte, short_write> together;
  iovec all;
  if (pieces.size() > 1 && put_together(pieces, together, all)) pieces = {&all, 1};
  if (pieces.size() == 1)
    return write_some(socket, std::span{static_cast<const std::byte*>(pieces[0].iov_base), pieces[0].iov_len});
  msghdr message = message_of(pieces);
  ssize_t result = 0;
  do {
    result = ::sendmsg(socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (result < 0 && errno == EINTR);
  return outcome(result, EAGAIN);
}

Moved write_some(SocketView socket, std::span<const std::byte> bytes) noexcept {
  ssize_t result = 0;
  do {
    result = ::send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (result < 0 && errno == EINTR);
  return outcome(result, EAGAIN);
}

// ---- Errors --------------------------------------------------------------------------------------------------------

bool is_busy(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

bool is_our_own(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM || error == EADDRNOTAVAIL ||
         error == EACCES || error == EPERM;
}

std::string text_of(int error) {
  if (error == end_of_stream) return "the other end closed the connection";
  if (error == queue_full) return "more connections wait there than its queue takes";
  return refusal(error);
}

}  // namespace tutti::net
