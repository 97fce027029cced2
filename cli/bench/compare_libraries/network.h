#pragma once

#include <string>

namespace tutti::cli::versus {

/// Moves this process and its later children into a network namespace that has only loopback, with congestion control
/// reno. Traffic of others and the machine's default (bbr halves the bandwidth of loopback) then have no influence.
/// Call it with one thread. Returns the outcome in one sentence; if it is not permitted, nothing changes.
std::string enter_own_network();

}  // namespace tutti::cli::versus
