#pragma once

#include "lib/security/handshake.h"
#include "transport/tcp/socket.h"

namespace tutti::transport::tcp {

/// Why a connection to a peer is given up that could not prove itself.
inline constexpr const char* who_has_another_secret =
    "who answers there does not know this job's secret. Is it a process of another job, or was TUTTI_SECRET set "
    "differently there?";

/// Sends and reads what `handshake` wants, as far as that is possible now. 0: it is over, see its state. EAGAIN: not
/// yet; it waits to write while something is outgoing, else to read. Else why it cannot go on: errno or end_of_stream.
inline int advance(Handshake& handshake, const Socket& socket) noexcept {
  while (handshake.state() == Handshake::State::under_way) {
    const bool writing = !handshake.outgoing().empty();
    iovec piece;
    if (writing) {
      const auto bytes = handshake.outgoing();
      piece = {const_cast<std::byte*>(bytes.data()), bytes.size()};  // iovec serves readers and writers alike
    } else {
      piece = {handshake.incoming().data(), handshake.incoming().size()};
    }
    const Moved moved = writing ? write_some(socket, {&piece, 1}) : read_some(socket, {&piece, 1});
    if (moved.error != 0) return moved.error;
    if (writing) {
      handshake.sent(moved.bytes);
    } else {
      handshake.received(moved.bytes);
    }
  }
  return 0;
}

}  // namespace tutti::transport::tcp
