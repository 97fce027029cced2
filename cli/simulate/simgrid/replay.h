#pragma once

#include "cli/simulate/network.h"
#include "cli/simulate/simulated_call.h"

namespace tutti::cli::simgrid {

/// Seconds that a call takes in SimGrid: our plans, their order, and the costs of a network file, with SimGrid's clock
/// and its sharing of links. Throws Error{unsupported} if there are too many steps, and std::logic_error if the plans
/// do not complete. Call it once per process, since SimGrid allows one simulation in each.
double replay(const simulate::SimulatedCall& simulated, const simulate::Network& network);

}  // namespace tutti::cli::simgrid
