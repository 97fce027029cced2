#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::rendezvous {

using Deadline = std::chrono::steady_clock::time_point;

struct Endpoint {
  std::string host;  ///< a name or a numeric address, without brackets
  std::uint16_t port = 0;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// Parses "host:port", "1.2.3.4:5", "[::1]:5". Throws Error{invalid_argument} that quotes `said_by` and `text`.
Endpoint parse_endpoint(std::string_view text, std::string_view said_by);
/// Parses a port, 0 to 65535.
std::uint16_t parse_port(std::string_view text, std::string_view said_by);
/// With brackets if the host is an IPv6 address.
std::string to_string(const Endpoint& endpoint);
/// "::1" for "[::1]"; anything else as it is.
std::string without_brackets(const std::string& host);

/// A numeric address in the form that system calls take.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  Endpoint endpoint() const;  // numeric
  void set_port(std::uint16_t port);
  bool is_loopback() const;
};

struct Resolved {
  std::vector<SocketAddress> addresses;  ///< in the order of preference of this host
  std::string problem;                   ///< why there are none
};

/// Looks up the host's addresses, without duplicates. Returns by the deadline even if the resolver does not answer.
/// "localhost" is loopback of both families, whatever the resolver says.
Resolved resolve(const Endpoint& endpoint, Deadline deadline);

/// True for 127.x.x.x, ::1 and "localhost": names that are meant as loopback.
bool is_written_loopback(const std::string& host);

/// Debian maps a host's own name to 127.0.1.1 in /etc/hosts, so on that host alone the name leads to loopback. Returns
/// that address if `endpoint` is such a name, else an empty text.
std::string hidden_loopback(const Endpoint& endpoint, Deadline deadline);

}  // namespace tutti::rendezvous
