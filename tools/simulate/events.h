#pragma once

#include <optional>

#include "tools/simulate/network.h"
#include "tools/simulate/task.h"

namespace tutti::tools::simulate {

/// Event by event: the plans of all ranks at once, any algorithm. Ports, the links that a host or a leaf switch shares
/// and each rank's arithmetic serve one message after the other, in the order in which they come.
///
/// Empty if the plans have too many steps to be held together (`most_steps`).
std::optional<Result> run_events(const Task& task, const Network& network);

inline constexpr double most_steps = 48e6;

}  // namespace tutti::tools::simulate
