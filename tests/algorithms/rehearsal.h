#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/check.h"
#include "algorithms/plan.h"
#include "tutti/types.h"

namespace tutti::algorithms::testing {

/// How to run plans for practice.
struct Stage {
  Collective collective;
  Claims claims{};
  int slots = 1;
  bool in_place = false;
  int held_back = -1;  ///< a rank that never starts
};

/// Runs the plans of all ranks with numbers for data, in a random order that is as mean as the plans allow: a step that
/// has started spoils what it will write, and what it reads must stay until it has finished. Knows nothing of the
/// checker; it settles whether the checker was right to let a plan pass. Returns what went wrong, or nothing.
std::string rehearse(const Stage& stage, const std::vector<Plan>& plans, std::uint32_t seed);

/// Several seeds, in place and out of place; a barrier also with each rank held back.
std::string rehearse_often(Collective collective, Claims claims, const std::vector<Plan>& plans, int slots);

}  // namespace tutti::algorithms::testing
