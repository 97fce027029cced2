#pragma once

#include <optional>

#include "cli/simulate/network.h"
#include "cli/simulate/simulated_call.h"

namespace tutti::cli::simulate {

/// Step by step for all ranks at once, without holding the plans of all. It is for algorithms in which every rank does
/// the same with a neighbour on either side. A ring over 24,576 ranks has 1.2e9 messages and takes seconds and
/// megabytes.
///
/// The result equals that of run_events() to the picosecond. The assumptions are checked: the plans are rotations of
/// each other, no rank competes with its neighbours for a port or a shared link, and messages are added up in the order
/// of the plan. Empty if that does not hold, or if it would take more than `most_memory`.
std::optional<Result> run_sweep(const SimulatedCall& simulated, const Network& network);

inline constexpr double most_memory = 1 << 30;

}  // namespace tutti::cli::simulate
