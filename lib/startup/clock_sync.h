#pragma once

namespace tutti {
class Communicator;
}

namespace tutti::detail {

struct Context;

/// For a trace over several hosts: ranks that are not on rank 0's host compare their clock with its, one after the
/// other, by messages to and fro. Every rank calls it, or does nothing if some rank keeps no trace. The offset is right
/// within half of the shortest round trip. Throws Error as send and recv do.
void compare_clocks(Context& context, Communicator& world);

}  // namespace tutti::detail
