#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "lib/base/descriptor.h"
#include "lib/base/net/address.h"

// Sockets without a user's event loop: each function is one or two system calls that do not block, or block until a
// deadline. Errors are values of errno, end_of_stream or queue_full.

namespace tutti::net {

using Socket = Descriptor;  ///< non-blocking, closed on exec
using Deadline = std::chrono::steady_clock::time_point;

/// A socket that somebody else owns.
class SocketView {
 public:
  SocketView(const Socket& owner) : fd_(owner.get()) {}  // NOLINT(google-explicit-constructor): as std::span does
  explicit SocketView(int fd) : fd_(fd) {}
  int get() const { return fd_; }

 private:
  int fd_;
};

inline constexpr int stream = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;  ///< for socket(2)
inline constexpr int end_of_stream = -1;
/// A Unix socket cannot connect now, since the listener's queue is full. (Over TCP such an attempt just takes longer.)
inline constexpr int queue_full = -2;
/// listen_at() lets that many connections wait until they are accepted; the kernel cuts the number to somaxconn.
inline constexpr int longest_queue = 4096;
/// Connections to accept before others get their turn: somebody may connect faster than this thread accepts.
inline constexpr int accepts_at_once = 16;

void set_option(SocketView socket, int level, int name, int value) noexcept;
/// Small messages leave at once.
void send_without_delay(SocketView socket) noexcept;
/// After `idle` without a packet the kernel asks the other end of a TCP connection for an answer, so that no firewall
/// on the way forgets the connection (some do after four minutes). Five questions without an answer, a fifth of `idle`
/// apart, end it (ETIMEDOUT). The kernel does not ask while something that was sent is not acknowledged.
void keep_alive(SocketView socket, std::chrono::milliseconds idle) noexcept;

// ---- Connecting and listening
/// For addresses of this family; empty, with errno: the system refuses it.
Socket make_stream(int family) noexcept;
/// The connection that the socket will make starts at this address of the host. 0, or why not.
int start_from(SocketView socket, Address from) noexcept;
/// 0: connected. EINPROGRESS: on its way, see connected(). Else why not; queue_full: the attempt is over, and `socket`
/// can try again later.
int begin_connect(SocketView socket, const Address& to) noexcept;
/// What became of begin_connect(): 0, EINPROGRESS, or why not.
int connected(SocketView socket) noexcept;
/// 0, or why this host does not let us listen there. Over TCP, a connection that says nothing reaches accept() only
/// after `silence`.
int listen_on(SocketView socket, const Address& address, int backlog, std::chrono::seconds silence) noexcept;
/// A socket that listens there, with a long queue. Port 0, any_unix_address(): the kernel chooses. Throws
/// Error{system}.
Socket listen_at(const Address& address, std::chrono::seconds silence);
/// The next connection; empty: there is none, see errno.
Socket accept_next(SocketView listener) noexcept;
/// accept_next() may fail for want of a descriptor although there is none: the kernel looks for a descriptor first.
bool is_connection_waiting(SocketView listener) noexcept;
/// `socket` is bound or connected. Empty, with errno, where it has none.
Address local_address(SocketView socket) noexcept;
Address remote_address(SocketView socket) noexcept;
/// The user that runs the other end of a Unix socket; -1 if that is unknown.
long user_of_peer(SocketView socket) noexcept;
/// Its process; 0 if that is not visible from here, -1 if unknown.
pid_t process_of_peer(SocketView socket) noexcept;
/// Ends the connection in both directions, if there is one; the socket stays open.
void shut_down(SocketView socket) noexcept;

// ---- Moving bytes
/// True when `socket` is ready for `events`, or the next call on it tells what is wrong; false at the deadline.
bool wait_until_ready(SocketView socket, short events, Deadline deadline) noexcept;

/// What one system call moved.
struct Moved {
  std::size_t bytes = 0;
  /// 0: at least one byte was moved. EAGAIN means none now, end_of_stream none ever; else it is errno.
  int error = 0;

  bool failed() const;
};
Moved read_some(SocketView socket, std::span<iovec> pieces) noexcept;
Moved write_some(SocketView socket, std::span<iovec> pieces) noexcept;
Moved read_some(SocketView socket, std::span<std::byte> bytes) noexcept;
Moved write_some(SocketView socket, std::span<const std::byte> bytes) noexcept;

// ---- Errors
/// The call may succeed later.
bool is_busy(int error);
/// This host, not the peer, lacks something.
bool is_our_own(int error);
/// What went wrong, in words.
std::string text_of(int error);

}  // namespace tutti::net
