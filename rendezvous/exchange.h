#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.h"
#include "tutti/store.h"

namespace tutti::rendezvous {

/// Publishes `mine` and returns the values of all ranks, by rank, as gathered by rank 0: O(ranks) messages and look-ups
/// at the server. Collective; `name` separates successive exchanges. Throws Error{rendezvous} that names the ranks that
/// did not come; its rank() is the first of them.
///
/// Rank 0 returns last (or five seconds after it has all values), since the server often ends with it.
///
/// Ranks for which `has_left` is true are blamed only if every missing rank has left.
std::vector<std::string> exchange(Store& store, std::string_view name, int rank, int ranks, std::string_view mine,
                                  std::chrono::steady_clock::time_point deadline,
                                  const std::function<bool(int rank)>& has_left = nullptr);

/// In place of exchange(): the others get `mine`, or what rank 0 says, and need not wait for this rank, which gives
/// `reason`. Returns without waiting for them, of rank 0 after half a second at most.
void decline(Store& store, std::string_view name, int rank, int ranks, std::string_view mine, const Error& reason);

}  // namespace tutti::rendezvous
