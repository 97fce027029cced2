#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/plan.h"
#include "tutti/types.h"

namespace tutti::cli::interchange {

/// The parameters of a GOAL schedule that a plan does not have.
struct GoalSizes {
  std::size_t bytes = 0;              ///< of the larger of one rank's input and output
  double nanoseconds_per_byte = 0.1;  ///< of a copy or a reduction
};

/// The plans of all ranks as a GOAL schedule, the text that LogGOPSim's txt2bin reads; see docs/interchange.md.
std::string goal(Collective collective, const std::vector<algorithms::Plan>& plans, const GoalSizes& sizes);

}  // namespace tutti::cli::interchange
