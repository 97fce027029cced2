#pragma once

#include <optional>
#include <string>

#include "lib/base/net/socket.h"

namespace tutti::transport {

/// The next connection; empty: there is none, see errno. `congestion`: as for Path, for the data that this end sends.
net::Socket accept_from(const net::Socket& listener, const std::string& congestion);

/// Why the system does not let this process use that algorithm of congestion control: an errno. 0: it does.
int refused_congestion(const std::string& name);

/// How a connection is made.
struct Path {
  /// The algorithm of congestion control to use if the system allows it; empty: that of the system, but no slow one on
  /// loopback. See also within_host().
  std::string congestion = {};
  std::optional<net::Address> from = {};  ///< an address of this host; nothing: the kernel chooses
};

/// Starts to connect. `error` is 0 if connected, EINPROGRESS while connecting (net::connected() tells more), and
/// otherwise the reason.
net::Socket connect_to(const net::Address& address, const Path& path, int& error);

/// The `congestion` of a Path if the connection never leaves this host, although its address does not say so:
/// chosen as on loopback. It must be known before the connection is made, since the kernel goes on pacing what bbr has
/// begun.
std::string within_host(const std::string& congestion);
/// The same for a connection that was accepted, which is paced if the system's algorithm does so, but faster.
void stays_within_host(const net::Socket& socket, const std::string& congestion);

/// Whether to try again: the peer may not listen yet, be busy, or have hung up before this rank had given its proof.
bool worth_retrying(int error);

}  // namespace tutti::transport
