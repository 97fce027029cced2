#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/net/socket.h"
#include "rendezvous/endpoint.h"
#include "tutti/error.h"

namespace tutti::rendezvous {

/// Nobody has served at that place until the deadline.
class NoStoreThere : public Error {
 public:
  using Error::Error;
};

/// A non-blocking connection to `endpoint`. Tries all addresses of the host, again and again, more slowly each time,
/// until the deadline: the other side may not have started yet. Throws Error{rendezvous} with the last reason; at once,
/// or after a few seconds, where this host lacks what it takes (loopback is down, no address of that family). The
/// program may interrupt it, which is Error{aborted}.
net::Socket connect_to(const Endpoint& endpoint, Deadline deadline);

/// True if the host of `endpoint` answers, within `limit`, that nobody listens there.
bool nobody_listens(const Endpoint& endpoint, std::chrono::milliseconds limit);

/// The addresses of a host whose name may become known only some time after this process has started. Throws
/// Error{aborted} where the program interrupts it.
Resolved await_addresses(const Endpoint& endpoint, Deadline deadline);

/// Non-blocking listening sockets on exactly that address, or on each address of a name that this host has, all with
/// one port; port 0: the kernel chooses. Throws Error{rendezvous} that says who holds the port, where that can be seen.
std::vector<net::Socket> listen_on(const Endpoint& endpoint, Resolved addresses);

/// A connection to a store is idle while a job runs. After this time without a packet the kernel probes the other end;
/// if that does not answer, the connection ends a minute later.
inline constexpr std::chrono::seconds silence_of_store{60};

/// True when `socket` is ready for `events`, or the next call on it tells what is wrong; false at the deadline. Throws
/// Error{aborted} where the program interrupts it.
bool wait_until_ready(const net::Socket& socket, short events, Deadline deadline);

enum class Transfer { done, timed_out, closed };

/// Sends everything, or says why not; `closed` leaves the reason in errno, 0 for an orderly end. Throws Error{aborted}
/// where the program interrupts it.
Transfer send_all(const net::Socket& socket, std::string_view bytes, Deadline deadline);

/// Receives exactly as many bytes as asked for, but takes available bytes from the kernel in large pieces.
class Receiver {
 public:
  explicit Receiver(const net::Socket& socket) : socket_(socket) {}
  /// Throws Error{aborted} where the program interrupts it.
  Transfer recv_all(std::span<char> bytes, Deadline deadline);

 private:
  /// Waits until there is something to receive.
  Transfer refill(Deadline deadline);

  const net::Socket& socket_;
  std::array<char, 32'768> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace tutti::rendezvous
