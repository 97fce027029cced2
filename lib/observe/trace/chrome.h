#pragma once

#include <functional>
#include <string_view>

#include "lib/observe/trace/snapshot.h"

// One rank's records as events of Chrome's trace-event format. A rank is a process there; its threads are its calls,
// its board, its work, and one per peer and direction for messages. On each of them slices are apart or inside each
// other: what would overlap gets a further thread of the same name. An arrow leads from each send to its receive.

namespace tutti::trace {

/// Gives one event after the other to `put`: a JSON object without a line break.
void write_events(const Snapshot& snapshot, const std::function<void(std::string_view)>& put);

}  // namespace tutti::trace
