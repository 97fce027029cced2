#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::transport {

/// Where a rank listens for shared-memory links, and which ranks can reach it: names of Unix sockets are private to a
/// network namespace of one running kernel.
struct ShmAddress {
  int rank = -1;
  std::string socket;  ///< abstract name; empty: this rank offers no shared memory
  std::string boot;    ///< id of the running kernel
  std::uint64_t network = 0;
  long user = -1;

  std::string encode() const;
  /// Nothing if `text` is not the encoding of an address.
  static std::optional<ShmAddress> parse(std::string_view text);
  /// This process's address, without rank and socket. Throws Error{system} if /proc cannot be read.
  static ShmAddress here();
};

/// Identifies the host of this process, for ranks that have no shared-memory address. Empty: unknown.
std::string host_identity();
/// It is the address of a rank that can be reached through shared memory, not only a host's identity.
bool offers_shm(std::string_view address);
/// Names the running kernel of the process that gave this address or identity; empty: unknown.
std::string kernel_of(std::string_view address);
/// Both texts, addresses or identities, come from processes of one running kernel, if perhaps of different network
/// namespaces. False for anything else.
bool same_kernel(std::string_view one, std::string_view other);
/// Both texts, addresses or identities, come from processes that see the same Unix sockets. False for anything else.
bool same_host(std::string_view one, std::string_view other);

}  // namespace tutti::transport
