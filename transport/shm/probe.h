#pragma once

#include <optional>
#include <string>

#include "transport/reactor.h"
#include "transport/transport.h"

namespace tutti::transport {

/// Used by no communicator.
inline constexpr Channel probe_channel = ~Channel{0};

/// Sends a pattern longer than a ring to `next` and receives that of `previous`, and sleeps in between like any user.
/// Returns nothing if that worked before `deadline`, else the reason. The transport must have its peers; its sink is
/// replaced.
std::optional<std::string> probe_transfer(Transport& transport, Reactor& reactor, int self, int next, int previous,
                                          Clock::time_point deadline);

}  // namespace tutti::transport
