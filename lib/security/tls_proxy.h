#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/base/descriptor.h"
#include "lib/security/handshake.h"
#include "lib/security/secret.h"

namespace tutti {

/// Encrypts connections transparently to their users: TLS 1.3 under a key that both sides have, with a fresh
/// Diffie-Hellman exchange, so that an attacker who learns the key later cannot decrypt recorded traffic.
///
///   user --plain-- pair of sockets --service thread-- connection, TLS --service thread-- pair of sockets --plain--
///   user
///
/// The user gets one end of the pair in exchange for the connection and continues as before. Data that it has written
/// still arrive after it has closed its end. An end of the stream, orderly or not, appears as one on the other side.
/// There are no certificates: the key comes from the handshake's proofs, which must precede (lib/security/handshake.h),
/// so strangers never speak TLS to us.
///
/// Each object has one thread. Its destructor waits, two seconds at most, until the data of its users have been sent.
/// exit() also waits for objects that still live; _exit() and signals do not, and unsent data are lost. fork() waits
/// for a moment until no object is inside OpenSSL. In the child the objects do nothing, and new ones work.
///
/// Threading: any.
class TlsProxies {
 public:
  enum class Side : std::uint8_t { client, server };

  /// Throws Error{unsupported} where this library was built without TLS, Error{system}.
  TlsProxies();
  ~TlsProxies();
  TlsProxies(const TlsProxies&) = delete;
  TlsProxies& operator=(const TlsProxies&) = delete;

  /// A non-blocking socket in exchange for a connected one. Nothing, with errno, if the system refuses one; then the
  /// connection is closed. Wait until is_ready() before writing.
  Descriptor encrypt(Descriptor connection, Side side, const Digest& key) noexcept;
  /// The same for a handshake in the state `proved`, which then waits until the end is ready.
  Descriptor encrypt(Descriptor connection, Handshake& handshake) noexcept;

  /// Whether the stream behind `end` is established; reads the one byte that says so. 0: it is. EAGAIN: not yet; the
  /// end becomes readable. ECONNRESET: it never will be, since the other side has gone or has another key. There is no
  /// time limit: a user that gives up closes its end.
  static int is_ready(int end) noexcept;
  /// That byte.
  static constexpr std::byte ready_byte{'R'};

  /// A duplicate of the descriptor of the connection behind `end`, for a short look at how it is; empty: there is none.
  Descriptor connection_behind(const Descriptor& end) const noexcept;
  /// Why that connection has ended: errno. 0: it has not, or in order, or that is not known.
  int error_behind(const Descriptor& end) const noexcept;

  /// Open connections.
  std::size_t count() const noexcept;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tutti
