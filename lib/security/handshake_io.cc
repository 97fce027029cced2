#include "lib/security/handshake_io.h"

#include "lib/security/tls_proxy.h"

namespace tutti {

int advance(Handshake& handshake, net::SocketView socket) noexcept {
  if (handshake.state() == Handshake::State::encrypting) {
    if (const int error = TlsProxies::is_ready(socket.get()); error != 0) return error;
    handshake.encrypted();
  }
  while (handshake.state() == Handshake::State::under_way) {
    const bool writing = !handshake.outgoing().empty();
    const net::Moved moved =
        writing ? net::write_some(socket, handshake.outgoing()) : net::read_some(socket, handshake.incoming());
    if (moved.error != 0) return moved.error;
    if (writing) {
      handshake.sent(moved.bytes);
    } else {
      handshake.received(moved.bytes);
    }
  }
  return 0;
}

}  // namespace tutti
