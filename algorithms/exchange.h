#pragma once

#include <optional>
#include <vector>

#include "algorithms/plan.h"

namespace tutti::algorithms {

/// What one rank does in a plan if it sends at most one message and receives at most one, neither of which waits for
/// anything, and otherwise only copies. Its caller can run such a plan by itself if the peers are quick.
struct Exchange {
  StepId send = no_step;
  StepId recv = no_step;
  std::vector<StepId> copies;
  bool copies_wait = false;  ///< some of them wait until the message has been sent
};

/// Nothing if the plan does anything else.
std::optional<Exchange> exchange_of(const Plan& plan);

}  // namespace tutti::algorithms
