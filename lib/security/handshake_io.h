#pragma once

#include "lib/base/net/socket.h"
#include "lib/security/handshake.h"

namespace tutti {

/// Sends and reads what `handshake` wants, as far as that is possible now, and no byte more. In its state `encrypting`,
/// `socket` is the end that TlsProxies has given for the connection. 0: it is `proved`, `done` or `refused`. EAGAIN:
/// not yet; it waits to write while something is outgoing, else to read. Else why it cannot go on: errno or
/// end_of_stream.
int advance(Handshake& handshake, net::SocketView socket) noexcept;

}  // namespace tutti
