#pragma once

#include <string>

namespace tutti::cli::versus {

/// Moves this process, and what it starts from now on, into a network of its own in which there is only loopback, with
/// congestion control reno: others' traffic and the machine's choice (bbr halves what loopback carries) stay outside.
/// Call with one thread. Returns what came of it in one sentence; where it may not, all stays as it is.
std::string enter_own_network();

}  // namespace tutti::cli::versus
