#include "lib/security/handshake_io.h"

namespace tutti {

int advance(Handshake& handshake, net::SocketView socket) noexcept {
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
