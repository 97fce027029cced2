#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lib/observe/trace/snapshot.h"
#include "tutti/types.h"

// One rank's records as events of Chrome's trace-event format. A rank is a process there; its threads are its calls,
// its board, its work, and one per peer and direction for messages. On each of them slices are disjoint or nested: a
// slice that would overlap another gets a further thread of the same name. An arrow leads from each send to its
// receive.

namespace tutti::trace {

/// Whether `reader` reads anything of `writer` when the algorithm of that name runs on a board. The algorithms know.
using BoardReads = std::function<bool(Collective collective, const std::string& algorithm, int ranks, int root,
                                      int reader, int writer)>;

/// Gives one event after the other to `put`: a JSON object without a line break.
void write_events(const Snapshot& snapshot, const BoardReads& board_reads,
                  const std::function<void(std::string_view)>& put);

}  // namespace tutti::trace
