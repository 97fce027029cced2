#pragma once

#include "cli/simulate/network.h"
#include "cli/simulate/task.h"

namespace tutti::cli::simulate {

/// Seconds that no run takes less than: for so long a rank's own ports send. Looks at a few ranks' plans only.
double least_time(const Task& task, const Network& network);

}  // namespace tutti::cli::simulate
