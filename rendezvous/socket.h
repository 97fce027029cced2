#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/descriptor.h"
#include "rendezvous/endpoint.h"

namespace tutti::rendezvous {

/// A non-blocking connection to `endpoint`. Tries all addresses of the host, again and again, more slowly each time,
/// until the deadline: the other side may not have started yet. Throws Error{rendezvous} with the last reason; at once,
/// or after a few seconds, where this host lacks what it takes (loopback is down, no address of that family).
Descriptor connect_to(const Endpoint& endpoint, Deadline deadline);

/// True when the host of `endpoint` answers, within `limit`, that nobody listens there.
bool nobody_listens(const Endpoint& endpoint, std::chrono::milliseconds limit);

/// Non-blocking listening sockets on exactly that address, or on each address of a name that this host has, all with
/// one port; port 0: the kernel chooses. Throws Error{rendezvous} that says who holds the port, where that can be seen.
std::vector<Descriptor> listen_on(const Endpoint& endpoint, Deadline deadline);

SocketAddress local_address(const Descriptor& socket);

/// A connection to a store is idle for as long as a job runs. After that time without a packet the kernel asks the
/// other end for a sign of life; a minute later it has ended.
inline constexpr std::chrono::seconds silence_of_store{60};

enum class Transfer { done, timed_out, closed };

/// Sends everything, or says why not; `closed` leaves the reason in errno, 0 for an orderly end.
Transfer send_all(const Descriptor& socket, std::string_view bytes, Deadline deadline);

/// Receives exactly as much as it is asked for, but takes what has come from the kernel in large pieces.
class Receiver {
 public:
  explicit Receiver(const Descriptor& socket) : socket_(socket) {}
  Transfer recv_all(std::span<char> bytes, Deadline deadline);

 private:
  /// Waits until there is something to take.
  Transfer refill(Deadline deadline);

  const Descriptor& socket_;
  std::array<char, 32'768> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace tutti::rendezvous
