#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lib/base/descriptor.h"

namespace tutti::transport {

/// What shared memory does with Unix sockets (lib/base/net/socket.h), beyond connections: it passes descriptors, and
/// wakes ranks. All sockets are non-blocking and closed on exec.

enum class Attempt { done, later, failed };

/// Connects to the socket that listens under `name`; `later` if its queue is full. `errno` has the reason of a failure.
Attempt connect_unix(const std::string& name, Descriptor& socket);

/// Sends `bytes` in one piece, together with a descriptor.
Attempt send_with_descriptor(const Descriptor& socket, std::span<const std::byte> bytes, const Descriptor& passed);

struct Received {
  Attempt attempt = Attempt::failed;  ///< done only if all of the buffer was filled and exactly one descriptor came
  Descriptor descriptor{};
  bool no_room = false;  ///< a descriptor came, but this process cannot open any more
};
Received receive_with_descriptor(const Descriptor& socket, std::span<std::byte> bytes);

// A bell is one byte that means nothing but "look".

/// A socket that takes bells from any process that knows its name, without a connection: for ranks that have no link.
/// Throws Error{system}.
Descriptor make_bell(const std::string& name);
/// Wakes the rank with the bell of that name. `from` is another bell.
void ring_bell(const Descriptor& from, const std::string& name) noexcept;
/// Discards the wake-ups that have arrived.
void discard_bells(const Descriptor& bell) noexcept;

void send_bell(const Descriptor& socket) noexcept;
/// The other end has closed. Reads nothing.
bool has_ended(const Descriptor& socket) noexcept;
/// Reads all wake-ups; false: the other end has closed.
bool take_bells(const Descriptor& socket) noexcept;

}  // namespace tutti::transport
