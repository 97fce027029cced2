#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::net {

/// Where a process listens, in the form that the system calls take: a numeric IPv4 or IPv6 address with a port, or the
/// name of a Unix socket in the abstract namespace, which is no file and vanishes with its process.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  bool is_unix() const { return family() == AF_UNIX; }
  /// The name of the Unix socket, without the leading zero byte; empty: it has none.
  std::string name() const;

  // These are for IP addresses only.
  bool is_loopback() const;
  /// Numeric, without brackets; of a link-local address with the interface: "fe80::1%eth0".
  std::string host() const;
  std::uint16_t port() const;
  void set_port(std::uint16_t port);

  /// "10.0.0.1:4242", "[::1]:4242", "unix:0002f".
  std::string text() const;

  friend bool operator==(const Address& one, const Address& other);
};

/// From a numeric host, without brackets; nothing for names and for anything else.
std::optional<Address> parse_address(const std::string& host, std::uint16_t port);
/// From "10.0.0.1:4242" or "[fe80::1%eth0]:4242", or from "unix:0002f", a name as the kernel chooses them.
std::optional<Address> parse_address(std::string_view text);

/// The address of the Unix socket with that name; nothing if the name is empty or too long.
std::optional<Address> unix_address(std::string_view name);
/// For a Unix socket that listens: the kernel chooses a free name.
Address any_unix_address();

/// "::1" becomes "[::1]"; any other host stays as it is.
std::string with_brackets(const std::string& host);

}  // namespace tutti::net
