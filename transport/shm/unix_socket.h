#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "lib/base/descriptor.h"

namespace tutti::transport {

/// Unix stream sockets with names in the abstract namespace: not files, gone with their process. All are non-blocking
/// and closed on exec.

/// A listening socket whose name the kernel chose. Throws Error{system}.
Descriptor listen_unix();
/// Its name, without the leading zero byte.
std::string name_of_socket(const Descriptor& socket);

enum class Attempt { done, later, failed };

/// Connects; `later` where the listener's queue is full. `errno` tells why it failed.
Attempt connect_unix(const std::string& name, Descriptor& socket);
/// The next connection that waits; none: `errno` tells why.
Descriptor accept_unix(const Descriptor& listener);
/// The user who runs the other end; -1 if that is unknown.
long user_of_peer(const Descriptor& socket);
/// The process that made the other end; 0 if it is not to be seen from here, -1 if that is unknown.
pid_t process_of_peer(const Descriptor& socket);

/// Sends `bytes` in one piece, together with a descriptor.
Attempt send_with_descriptor(const Descriptor& socket, std::span<const std::byte> bytes, const Descriptor& passed);

struct Received {
  Attempt attempt = Attempt::failed;  ///< done only if all of the buffer was filled and exactly one descriptor came
  Descriptor descriptor{};
  bool no_room = false;  ///< a descriptor came, but this process may open no more
};
Received receive_with_descriptor(const Descriptor& socket, std::span<std::byte> bytes);

/// One byte that means nothing but "look".
/// A socket that takes bells from whoever knows its name, without a connection: for ranks that have no link.
/// Throws Error{system}.
Descriptor make_bell(const std::string& name);
/// Rings the bell of that name, from another bell.
void ring_bell(const Descriptor& from, const std::string& name) noexcept;
/// Forgets the bells that have been rung.
void hush(const Descriptor& bell) noexcept;

void send_bell(const Descriptor& socket) noexcept;
/// The other end has closed. Takes nothing.
bool has_ended(const Descriptor& socket) noexcept;
/// Takes all bells; false: the other end has closed.
bool take_bells(const Descriptor& socket) noexcept;

}  // namespace tutti::transport
