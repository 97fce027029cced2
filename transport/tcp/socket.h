#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "lib/base/descriptor.h"

namespace tutti::transport::tcp {

using Socket = Descriptor;  ///< non-blocking, closed on exec

/// A numeric address and port, as the kernel wants it.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  bool loopback = false;
};

/// From "10.0.0.1:4242" or "[fe80::1%eth0]:4242"; nothing for names and for anything else.
std::optional<Address> parse_address(const std::string& text);
/// The same from a numeric host and a port.
std::optional<Address> parse_address(const std::string& host, unsigned short port);

/// Listens on a port that the kernel chooses. A connection that says nothing reaches accept() only after `silence`.
/// Throws Error{system}.
Socket listen_on(const Address& address, std::chrono::seconds silence);
/// "10.0.0.1:4242" of a bound socket.
std::string local_address(const Socket& socket);
/// The next connection, or none, with errno. `congestion`: as for connect_to(); each end chooses for what it sends.
Socket accept_from(const Socket& listener, const std::string& congestion);

/// Starts to connect. `error` is 0 when connected, EINPROGRESS when on its way, else why not. `congestion` is the
/// algorithm to use if the system allows it; empty: the system's, but not a slow one on loopback.
Socket connect_to(const Address& address, const std::string& congestion, int& error);
/// What became of that: 0 when connected, EINPROGRESS, or why not.
int connected(const Socket& socket);

/// True when something that was written was tried at least twice, and not a single acknowledgement has come for `time`.
/// A peer that is alive but does not read acknowledges all the same. False where that cannot be told.
bool is_unanswered(const Socket& socket, std::chrono::milliseconds time) noexcept;

/// Ends the connection in both directions, if there is one; the socket stays open.
void shut_down(const Socket& socket) noexcept;

/// What one system call moved.
struct Moved {
  std::size_t bytes = 0;
  /// 0: at least one byte. EAGAIN: none now. end_of_stream: none ever. Else errno.
  int error = 0;

  bool failed() const;
};
inline constexpr int end_of_stream = -1;

Moved read_some(const Socket& socket, std::span<iovec> pieces);
Moved write_some(const Socket& socket, std::span<iovec> pieces);

/// A peer that does not listen yet, or hung up before it knew who we are, may be tried again.
bool worth_retrying(int error);
/// This host, not the peer, lacks something.
bool is_our_own(int error);
/// What went wrong, in words.
std::string text_of(int error);
/// Why a connection that was open has ended by it, for people.
std::string probable_cause(int error);

}  // namespace tutti::transport::tcp
