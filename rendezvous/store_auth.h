#pragma once

#include <cstdint>
#include <optional>

#include "lib/security/handshake.h"
#include "lib/security/secret.h"
#include "lib/security/tls_proxy.h"
#include "rendezvous/store_socket.h"

namespace tutti::rendezvous {

/// The key that clients and server of a store prove to know; none if the job has no secret.
Secret store_key(const Secret& secret);

/// The server's side of the challenge that comes before the first request (tcp_protocol.h).
class StoreAuth {
 public:
  enum class Step : std::uint8_t { wait_to_read, wait_to_write, encrypt, admitted, refused };

  /// `key` must outlive this object. `encrypted` nothing: as the client wishes.
  StoreAuth(const Secret& key, std::optional<bool> encrypted)
      : handshake_(Handshake::accept(key, Purpose::store, 0, encrypted)) {}

  /// Moves what can be moved without blocking. Reads no byte beyond the proof. After `encrypt` it goes on over the end
  /// that TlsProxies has given in exchange for `socket`, and reads the byte that says that this end is ready.
  Step advance(net::SocketView socket) noexcept;
  /// The client did not even try: it is PyTorch's, or was started without the secret.
  bool was_plain() const { return was_plain_; }
  Handshake& handshake() { return handshake_; }

 private:
  Handshake handshake_;
  bool begun_ = false;  ///< the operation byte has come
  bool was_plain_ = false;
};

/// The client's side. With `tls_proxies` it leaves an encrypted connection in `socket`, or throws Error{system} if this
/// host lacks resources for one.
///   - done: both have proved themselves.
///   - refused: the server could not prove itself, or speaks another protocol.
///   - closed: the server ended the connection; it may be open to everybody, or have too many strangers.
///   - timed_out: the deadline passed.
enum class Proof : std::uint8_t { done, refused, closed, timed_out };
Proof prove(Descriptor& socket, const Secret& key, Deadline deadline, TlsProxies* tls_proxies);

}  // namespace tutti::rendezvous
