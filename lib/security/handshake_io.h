#pragma once

#include "lib/base/net/socket.h"
#include "lib/security/handshake.h"

namespace tutti {

/// Sends and reads what `handshake` wants, as far as that is possible now. 0: it is no longer under way, see its state.
/// EAGAIN: not yet; it waits to write while something is outgoing, else to read. Else why it cannot go on: errno or
/// end_of_stream.
int advance(Handshake& handshake, net::SocketView socket) noexcept;

}  // namespace tutti
