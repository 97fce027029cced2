#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/check.h"
#include "algorithms/plan.h"
#include "tutti/types.h"

namespace tutti::algorithms::testing {

/// How the plans of all ranks are run.
struct RunSetup {
  Collective collective;
  Claims claims{};
  int slots = 1;
  bool in_place = false;
  int held_back = -1;  ///< a rank that never starts
};

/// Runs the plans of all ranks with numbers for data, in a random order that is as mean as the plans allow: a step that
/// has started spoils what it will write, and what it reads must stay until it has finished. Knows nothing of the
/// checker; it settles whether the checker was right to let a plan pass. Returns what went wrong, or nothing.
std::string run_in_random_order(const RunSetup& setup, const std::vector<Plan>& plans, std::uint32_t seed);

/// Several seeds, in place and out of place; a barrier also with each rank held back.
std::string run_in_many_orders(Collective collective, Claims claims, const std::vector<Plan>& plans, int slots);

}  // namespace tutti::algorithms::testing
