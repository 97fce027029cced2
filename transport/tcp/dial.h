#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "lib/base/challenge.h"
#include "lib/base/secret.h"
#include "lib/base/tunnel.h"
#include "transport/tcp/socket.h"

namespace tutti::transport::tcp {

/// Connects to the Door at `address` ("10.0.0.1:4242") as `hello.from`, and returns once both sides have proved
/// themselves: a non-blocking socket on which nothing has been read behind the proofs. Tries again, more slowly each
/// time, while the other side refuses or hangs up: it may not listen yet, or be short of places. With `tunnels` the
/// connection is encrypted, as it must be on the other side, too; `hello` need not say so.
///
/// Blocks until `deadline` at most. Throws Error{peer_lost} with rank `hello.to`: not reached in time, or who answers
/// there does not know the key; Error{system} when this host lacks something.
Socket connect_authenticated(const std::string& address, const Secret& key, Hello hello,
                             std::chrono::steady_clock::time_point deadline,
                             const std::shared_ptr<Tunnels>& tunnels = {});

}  // namespace tutti::transport::tcp
