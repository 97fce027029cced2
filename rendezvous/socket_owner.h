#pragma once

#include <sys/types.h>

#include <optional>

namespace tutti::rendezvous {

/// Who holds the other end of a TCP connection within this host.
struct SocketOwner {
  bool open = false;  ///< a process still holds it; false: it has closed it, and `user` means nothing
  uid_t user = 0;     ///< effective user of whoever made it
};

/// Asks the kernel for the owner of the socket that `connected`, an accepted TCP socket, is connected to
/// (sock_diag(7)). Empty where the kernel does not tell: the other end is on another host or in another network
/// namespace, or this kernel has no such interface.
std::optional<SocketOwner> owner_of_peer(int connected);

}  // namespace tutti::rendezvous
