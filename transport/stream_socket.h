#pragma once

#include <chrono>
#include <string>

#include "lib/base/net/socket.h"

namespace tutti::transport {

/// The next connection; empty: there is none, see errno. `congestion`: as for connect_to(), for the data that this end
/// sends.
net::Socket accept_from(const net::Socket& listener, const std::string& congestion);

/// Starts to connect. `error` is 0 if connected, EINPROGRESS while connecting (net::connected() tells more), and
/// otherwise the reason. `congestion`: the algorithm to use if the system allows it; empty: that of the system, but no
/// slow one on loopback.
net::Socket connect_to(const net::Address& address, const std::string& congestion, int& error);

/// Whether to try again: the peer may not listen yet, be busy, or have hung up before this rank had given its proof.
bool worth_retrying(int error);

}  // namespace tutti::transport
