#pragma once

#include "cli/simulate/network.h"
#include "cli/simulate/simulated_call.h"

namespace tutti::cli::simulate {

/// A lower bound in seconds: the time for which a rank's own ports send. Examines only a few ranks' plans.
double least_time(const SimulatedCall& simulated, const Network& network);

}  // namespace tutti::cli::simulate
