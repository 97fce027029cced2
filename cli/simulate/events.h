#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/simulate/network.h"
#include "cli/simulate/task.h"

namespace tutti::cli::simulate {

/// When a message went, in picoseconds from the begin.
struct SimulatedMessage {
  int from = 0;
  int to = 0;
  std::uint32_t step = 0;  ///< its send in the plan of `from`
  double begin = 0;        ///< it was given to its port
  double end = 0;          ///< all of it was there
};

/// Event by event: the plans of all ranks at once, any algorithm. Ports, the links that a host or a leaf switch shares
/// and each rank's arithmetic serve one message after the other, in the order in which they come.
///
/// Empty if the plans have too many steps to be held together (`most_steps`). `messages`, if given, gets all of them.
std::optional<Result> run_events(const Task& task, const Network& network,
                                 std::vector<SimulatedMessage>* messages = nullptr);

inline constexpr double most_steps = 48e6;

}  // namespace tutti::cli::simulate
