#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "lib/base/descriptor.h"
#include "lib/base/net/address.h"

struct inet_diag_msg;

namespace tutti::rendezvous {

/// The owner of the other end of a TCP connection within this host.
struct SocketOwner {
  bool open = false;  ///< a process still holds it; false: it has closed it, and `user` means nothing
  uid_t user = 0;     ///< effective user of the process that made it

  /// This process's user, or root.
  bool is_trusted() const;
};

/// Asks the kernel who owns sockets (sock_diag(7)). Holds the descriptor that this takes, so that somebody who takes
/// all descriptors of this process cannot keep it from asking. Threading: one thread at a time.
class SocketOwners {
 public:
  SocketOwners();
  /// The owner of the socket that `connected`, an accepted TCP socket, is connected to. Empty if the kernel does not
  /// say: the other end is on another host or in another network namespace, or this kernel has no such interface.
  std::optional<SocketOwner> of_peer(int connected);
  /// The same for `connected`, a TCP socket that this process has connected to an address of loopback; empty for other
  /// addresses, too. The owner is that of the listener as long as nobody has accepted the connection.
  std::optional<SocketOwner> of_server(int connected);

 private:
  std::optional<inet_diag_msg> look_up(const net::Address& from, const net::Address* to);

  Descriptor netlink_;
  std::uint32_t questions_ = 0;
};

}  // namespace tutti::rendezvous
