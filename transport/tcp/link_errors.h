#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "transport/tcp/tcp_context.h"

namespace tutti::transport::tcp {

// The errors of a sending link. Each names this rank and its peer, and the remedy if it is known.

Error no_address_of(const TcpContext& context, int peer);
/// `attempts` attempts within `time` have failed, the last one with `error`.
Error cannot_reach(const TcpContext& context, int peer, int error, int attempts, Clock::duration time);
/// The process at the peer's address cannot prove that it belongs to this job.
Error cannot_trust(const TcpContext& context, int peer);
/// The peer has said bye, but there is more to send.
Error has_closed(const TcpContext& context, int peer);
Error is_nonsense(const TcpContext& context, int peer);
Error is_unacknowledged(const TcpContext& context, int peer, Clock::duration time);
/// The connection broke after `sent_bytes` bytes.
Error is_lost(const TcpContext& context, int peer, std::uint64_t sent_bytes, int error);

/// Why an open connection probably ended with `error`, in words.
std::string probable_cause(int error);

}  // namespace tutti::transport::tcp
