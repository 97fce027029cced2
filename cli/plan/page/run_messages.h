#pragma once

#include <optional>
#include <vector>

#include "algorithms/plan.h"
#include "cli/simulate/simulated_call.h"
#include "cli/trace/read.h"

namespace tutti::cli {

/// The messages of a call in the order in which its plans send them, rank by rank. Nothing if it does not use those
/// plans, or if a message is missing. On streams a message may go in rounds; it lasts until the last one has ended. One
/// without bytes is never sent; it gets the time at which its rank could have sent it. `simulated`: the same call.
std::optional<std::vector<TracedMessage>> messages_of(const TracedCall& call, const simulate::SimulatedCall& simulated,
                                                      const std::vector<algorithms::Plan>& plans);

}  // namespace tutti::cli
