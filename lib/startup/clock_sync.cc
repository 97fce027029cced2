#include "lib/startup/clock_sync.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "lib/group/context.h"
#include "lib/observe/trace/ticks.h"
#include "tutti/communicator.h"

namespace tutti::detail {
namespace {

constexpr int round_trips = 20;  // the first of which make the connections

}  // namespace

void compare_clocks(Context& context, Communicator& world) {
  const bool all_trace = std::ranges::all_of(context.peers, &Peer::traces);
  const auto is_elsewhere = [&](int rank) { return !context.peers[static_cast<std::size_t>(rank)].same_host; };
  if (!context.recorder) return;
  if (!all_trace && context.rank != 0 && is_elsewhere(0)) context.recorder->set_clock(context.rank, 0, -1);
  if (!all_trace) return;
  std::array<std::int64_t, 1> time{};
  for (int rank = 1; context.rank == 0 && rank < context.size; ++rank) {
    for (int trip = 0; trip < round_trips && is_elsewhere(rank); ++trip) {
      world.recv(time, rank);
      time[0] = trace::monotonic();
      world.send(time, rank);
    }
  }
  if (context.rank == 0 || !is_elsewhere(0)) return;
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (int trip = 0; trip < round_trips; ++trip) {
    const std::int64_t before = trace::monotonic();
    world.send(time, 0);
    world.recv(time, 0);
    const std::int64_t length = trace::monotonic() - before;
    if (length >= shortest) continue;
    shortest = length;
    context.recorder->set_clock(0, time[0] - (before + length / 2), length / 2 + 1);
  }
}

}  // namespace tutti::detail
