#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/net/socket.h"

namespace tutti::rendezvous {

using net::Deadline;

struct Endpoint {
  std::string host;  ///< a name or a numeric address, without brackets
  std::uint16_t port = 0;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// Parses "host:port", "1.2.3.4:5", "[::1]:5". Throws Error{invalid_argument} that quotes `said_by` and `whole`, of
/// which `text` is a part; empty: it is all.
Endpoint parse_endpoint(std::string_view text, std::string_view said_by, std::string_view whole = {});
/// Parses a port, 0 to 65535, in the same way.
std::uint16_t parse_port(std::string_view text, std::string_view said_by, std::string_view whole = {});
/// A numeric one.
Endpoint endpoint_of(const net::Address& address);
/// With brackets where the host is an IPv6 address.
std::string to_string(const Endpoint& endpoint);
/// "::1" for "[::1]"; anything else as it is.
std::string without_brackets(const std::string& host);

struct Resolved {
  std::vector<net::Address> addresses;  ///< in the order of preference of this host
  std::string problem;                  ///< why there are none
};

/// Looks up the host's addresses, without duplicates. Returns by the deadline even if the resolver does not answer.
/// "localhost" is loopback of both families, whatever the resolver says. Throws Error{aborted} where the program
/// interrupts it.
Resolved resolve(const Endpoint& endpoint, Deadline deadline);

/// True for 127.x.x.x, ::1 and "localhost": these mean loopback on every host.
bool is_written_loopback(const std::string& host);

/// Debian maps a host's own name to 127.0.1.1 in /etc/hosts, so on that host alone the name leads to loopback. Returns
/// that address if `endpoint` is such a name, else an empty text.
std::string hidden_loopback(const Endpoint& endpoint, Deadline deadline);

}  // namespace tutti::rendezvous
