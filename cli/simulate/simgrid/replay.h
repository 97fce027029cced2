#pragma once

#include "cli/simulate/network.h"
#include "cli/simulate/task.h"

namespace tutti::cli::simgrid {

/// Seconds that a call takes by SimGrid: its plans, their order, and the costs of a network file, but SimGrid's clock
/// and its sharing of links. Throws Error{unsupported} where there are too many steps, std::logic_error if the plans do
/// not get to their end. Once in a process, as SimGrid has one simulation in each.
double replay(const simulate::Task& task, const simulate::Network& network);

}  // namespace tutti::cli::simgrid
