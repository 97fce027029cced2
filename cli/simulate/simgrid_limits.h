#pragma once

#include "cli/simulate/simulated_call.h"

namespace tutti::cli::simulate {

/// Throws Error{unsupported} for a call whose replay in SimGrid would take gigabytes: its platform has a route for
/// every two ranks, and its replay an actor for every step.
void refuse_too_large_for_simgrid(const SimulatedCall& simulated);

}  // namespace tutti::cli::simulate
