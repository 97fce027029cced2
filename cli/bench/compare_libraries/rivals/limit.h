#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "cli/measure/rank_sync.h"

// The speed of this machine, measured with the least code, for the column "limit".

namespace tutti::cli::measure {

/// Runs `body` in `count` processes at once, the k-th on the k-th core (modulo the number of cores), and returns their
/// results; a process that fails gives 0. The processes share a RankSync.
std::vector<double> in_processes(int count, const std::function<double(RankSync&)>& body);

enum class Level { l2, l3, memory };
/// The cache level into which `bytes` fit if each of two cores uses half of them.
Level level_of(std::size_t bytes);

/// GB/s of all processes together, counting the bytes written.
double copy_rate(Level level, int processes);
/// The same for a += b on float32.
double reduce_rate(Level level, int processes);

/// Round trip of a cache line between the first two of `cores`, ns (RankSync::probe).
double cache_line_ns(std::span<const int> cores);
/// Microseconds of a barrier with one counter in shared memory whose waiters yield: the least for ranks to meet.
struct Floor {
  double single = 0;
  double loop = 0;
};
Floor barrier_floor(int ranks);

/// Microseconds of a round trip of 4 bytes over loopback TCP between two cores that spin.
double tcp_round_trip();
/// GB/s over one connection of loopback TCP, one way, or the sum of both ways at once.
double tcp_stream(bool both_ways);

}  // namespace tutti::cli::measure
