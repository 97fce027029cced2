#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/plan.h"

namespace tutti::algorithms {

enum class Ran : std::uint8_t { all, some, refused };

/// Runs the plans of all ranks, with something else in place of data. Executing the steps of a rank in the order of the
/// list is correct. `can_run(rank, step)`: what the step receives has been sent. `run(rank, step)`: false refuses the
/// plans. `some`: the other steps wait for messages that are never sent.
template <class CanRun, class Run>
Ran run_in_order(std::span<const Plan> plans, CanRun&& can_run, Run&& run) {
  std::vector<StepId> next(plans.size(), 0);
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::size_t rank = 0; rank < plans.size(); ++rank) {
      const std::vector<Step>& steps = plans[rank].steps;
      for (StepId& id = next[rank]; id < steps.size() && can_run(static_cast<int>(rank), steps[id]);
           ++id, goes_on = true)
        if (!run(static_cast<int>(rank), steps[id])) return Ran::refused;
    }
  }
  for (std::size_t rank = 0; rank < plans.size(); ++rank)
    if (next[rank] < plans[rank].steps.size()) return Ran::some;
  return Ran::all;
}

}  // namespace tutti::algorithms
