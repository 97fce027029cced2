#pragma once

#include <cstdint>
#include <optional>

#include "cli/simulate/network.h"
#include "cli/simulate/simulated_call.h"

namespace tutti::cli::simulate {

/// Whose kernels do the tasks of a plan where ranks use each other's memory.
enum class Runner : std::uint8_t { leader, each };

/// A call of ranks that share one GPU (network.gpu), command by command: those of `tutti plan --on gpu`. A plan that
/// ranks can run in each other's memory is run so; any other goes over links, with the library's slots. A stream runs
/// one command after the other. The GPU runs one kernel at a time, and takes a while to go on to another rank's; it
/// begins with those of the rank that was last in the call before. Throws Error{unsupported} for what has no such
/// commands. Empty if the plans have too many steps to be held together (`most_steps`, step_count.h).
std::optional<Result> run_commands(const SimulatedCall& simulated, const Network& network,
                                   Runner runner = Runner::leader);

}  // namespace tutti::cli::simulate
