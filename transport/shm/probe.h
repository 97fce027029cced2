#pragma once

#include <optional>
#include <string>

#include "transport/reactor.h"
#include "transport/transport.h"

namespace tutti::transport {

/// No communicator's.
inline constexpr Channel probe_channel = ~Channel{0};

/// Sends a pattern longer than a ring to `next` and takes `previous`'s, sleeping in between like any user: nothing if
/// that worked before `deadline`, else what was in the way. The transport must have peers, and no sink that matters.
std::optional<std::string> probe_transfer(Transport& transport, Reactor& reactor, int self, int next, int previous,
                                          Clock::time_point deadline);

}  // namespace tutti::transport
