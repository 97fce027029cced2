#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/fork_mark.h"
#include "tutti/error.h"

namespace tutti::rendezvous {

// Errors that all stores report in the same words. `where` names the store: "store 127.0.0.1:29500", "file /tmp/x".

Error waited_in_vain(std::string_view where, std::span<const std::string> keys, std::chrono::milliseconds timeout);
Error not_addable(std::string_view where, std::string_view key);

/// Throws Error{invalid_argument} in a child of fork(), which must not use the parent's connections and locks.
void require_own_process(const ForkMark& mark, std::string_view where);

/// "\"a\", \"b\" and 3 more".
std::string list_of(std::span<const std::string> names);
/// "30 s", "0.25 s".
std::string in_seconds(std::chrono::milliseconds time);

}  // namespace tutti::rendezvous
