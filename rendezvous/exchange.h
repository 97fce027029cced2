#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/store.h"

namespace tutti::rendezvous {

/// Takes the place `rank` of `size` in the store. Throws Error{rendezvous} when another process has it already, or was
/// told another size. Two messages per rank; does not wait for the others. Call it before the first exchange().
void join(Store& store, int rank, int size, std::chrono::steady_clock::time_point deadline);

/// Publishes `mine` and returns everybody's, by rank, as gathered by rank 0: O(ranks) messages and look-ups at the
/// server. Collective; `name` separates successive exchanges. Throws Error{rendezvous} that names the ranks that
/// did not come (its rank() is the first of them).
///
/// Rank 0 returns last (or five seconds after it has all values): the server often ends with it.
std::vector<std::string> exchange(Store& store, std::string_view name, int rank, int ranks, std::string_view mine,
                                  std::chrono::steady_clock::time_point deadline);

}  // namespace tutti::rendezvous
