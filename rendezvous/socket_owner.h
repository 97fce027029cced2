#pragma once

#include <sys/types.h>

#include <optional>

namespace tutti::rendezvous {

/// The owner of the other end of a TCP connection within this host.
struct SocketOwner {
  bool open = false;  ///< a process still holds it; false: it has closed it, and `user` means nothing
  uid_t user = 0;     ///< effective user of the process that made it
};

/// Asks the kernel for the owner of the socket that `connected`, an accepted TCP socket, is connected to
/// (sock_diag(7)). Empty if the kernel does not say: the other end is on another host or in another network namespace,
/// or this kernel has no such interface.
std::optional<SocketOwner> owner_of_peer(int connected);

}  // namespace tutti::rendezvous
