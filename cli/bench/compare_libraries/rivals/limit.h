#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "cli/measure/meeting.h"

// What this machine allows, measured with the least code that can do it, for the column "limit".

namespace tutti::cli::measure {

/// Runs `body` in so many processes at once, the k-th on the k-th core (and round again), and returns what each
/// returned; a process that fails gives 0. The meeting is theirs.
std::vector<double> in_processes(int count, const std::function<double(Meeting&)>& body);

enum class Level { l2, l3, memory };
/// The level of the caches that `bytes` fit into, where each of two cores uses half of them.
Level level_of(std::size_t bytes);

/// GB/s of all processes together, counting the bytes that are produced.
double copy_rate(Level level, int processes);
/// The same for a += b on float32.
double reduce_rate(Level level, int processes);

/// Round trip of a cache line between two cores, ns (Meeting::probe).
double cache_line_ns();
/// A barrier of one counter in shared memory whose waiters yield, microseconds: what so many ranks need to meet.
struct Floor {
  double single = 0;
  double loop = 0;
};
Floor barrier_floor(int ranks);

/// Microseconds for 4 bytes there and back over loopback TCP between two cores that spin.
double tcp_round_trip();
/// GB/s over one connection of loopback TCP, one way, or both at once and added up.
double tcp_stream(bool both_ways);

}  // namespace tutti::cli::measure
