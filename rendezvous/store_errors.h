#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/fork_mark.h"
#include "tutti/error.h"

namespace tutti::rendezvous {

// Errors of stores; those that all of them report are in the same words. `where` names the store: "store
// 127.0.0.1:29500", "file /tmp/x".

Error waited_in_vain(std::string_view where, std::span<const std::string> keys, std::chrono::milliseconds timeout);
Error not_addable(std::string_view where, std::string_view key);
/// list_keys(), where the names take that many bytes, more than a server sends.
Error too_long_list(std::string_view where, std::int64_t bytes);

/// Throws Error{invalid_argument} in a child of fork(), which must not use the parent's connections and locks.
void require_own_process(const ForkMark& mark, std::string_view where);

/// "\"a\", \"b\" and 3 more".
std::string list_of(std::span<const std::string> names);
/// "30 s", "0.25 s".
std::string in_seconds(std::chrono::milliseconds time);

}  // namespace tutti::rendezvous
