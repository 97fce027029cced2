#pragma once

#include "tutti/version.h"

namespace tutti {
inline namespace TUTTI_ABI {
class Communicator;
}
}  // namespace tutti

namespace tutti::detail {

struct Context;

/// For a trace over several hosts: ranks that are not on rank 0's host compare their clocks with its, one after the
/// other, by messages in both directions. Every rank calls it; it does nothing if some rank keeps no trace. The error
/// of the offset is at most half of the shortest round trip. Throws Error as send and recv do.
void compare_clocks(Context& context, Communicator& world);

}  // namespace tutti::detail
