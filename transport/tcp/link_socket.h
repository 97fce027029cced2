#pragma once

#include <chrono>
#include <string>

#include "lib/base/net/socket.h"

namespace tutti::transport::tcp {

/// Listens on `address`; port 0: the kernel chooses. A connection that says nothing reaches accept() only after
/// `silence`. Throws Error{system}.
net::Socket listen_on(const net::Address& address, std::chrono::seconds silence);
/// The next connection, or none, with errno. `congestion`: as for connect_to(); each end chooses for what it sends.
net::Socket accept_from(const net::Socket& listener, const std::string& congestion);

/// Starts to connect. `error` is 0 when connected, EINPROGRESS when on its way (net::connected() tells more), else why
/// not. `congestion` is the algorithm to use if the system allows it; empty: the system's, but not a slow one on
/// loopback.
net::Socket connect_to(const net::Address& address, const std::string& congestion, int& error);

/// A peer that does not listen yet, or hung up before this rank had proved itself, may be tried again.
bool worth_retrying(int error);
/// Why a connection that was open has ended by it, for people.
std::string probable_cause(int error);

}  // namespace tutti::transport::tcp
