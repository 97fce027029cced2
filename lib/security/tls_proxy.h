#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/base/descriptor.h"
#include "lib/security/handshake.h"
#include "lib/security/secret.h"

namespace tutti {

/// Encrypts connections behind the back of who uses them: TLS 1.3 under a key that both sides have, with a fresh
/// Diffie-Hellman exchange, so that who learns the key later cannot read what was recorded.
///
///   user --plain-- Unix socket pair --service thread-- TCP --TLS-- service thread -- Unix socket pair --plain-- user
///
/// The user gets one end of the pair in exchange for his TCP socket and goes on as before. What he has written and
/// closed still arrives; an end of the stream, in order or not, shows on the other side as one. No certificates: the
/// key is made by the handshake that must come first (lib/security/handshake.h), so that no stranger ever speaks TLS to
/// us.
///
/// One thread per object, from the first to the last moment; its end waits, two seconds at most, until what users have
/// written has been sent. exit() waits, too, where nobody has ended it before; _exit() and signals do not, and what was
/// not sent is lost. In a child of fork() it does nothing.
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

  /// A non-blocking end in exchange for a connected socket. Nothing, with errno, where the system has none to give;
  /// then the connection is closed. Wait until is_ready() before anything is written.
  Descriptor encrypt(Descriptor tcp, Side side, const Digest& key) noexcept;
  /// The same behind a handshake that is done.
  Descriptor encrypt(Descriptor tcp, const Handshake& handshake) noexcept;

  /// Whether the tunnel behind `end` has come about: reads the one byte that says so. 0: it has. EAGAIN: not yet; the
  /// end gets readable. ECONNRESET: it never will, since the other side has gone or has not the same key. There is no
  /// time limit: whose patience has ended closes his end.
  static int is_ready(int end) noexcept;
  /// That byte.
  static constexpr std::byte ready_byte{'R'};

  /// Connections that are not closed yet.
  std::size_t count() const noexcept;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tutti
