#pragma once

#include <chrono>
#include <cstdint>

#include "transport/tcp/tcp_context.h"

namespace tutti::transport::tcp {

// What a sending link fails with. Each names this rank and its peer, and says what to do where that is known.

Error no_address_of(const TcpContext& context, int peer);
/// After so many attempts in that time; `error` is that of the last one.
Error cannot_reach(const TcpContext& context, int peer, int error, int attempts, Clock::duration time);
/// The peer's process cannot prove that it is one of this job.
Error cannot_trust(const TcpContext& context, int peer);
/// There is more to send, and the peer has said bye.
Error has_closed(const TcpContext& context, int peer);
Error is_nonsense(const TcpContext& context, int peer);
Error is_unacknowledged(const TcpContext& context, int peer, Clock::duration time);
/// The connection broke after so many bytes.
Error is_lost(const TcpContext& context, int peer, std::uint64_t sent_bytes, int error);

}  // namespace tutti::transport::tcp
