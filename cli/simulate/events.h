#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/simulate/network.h"
#include "cli/simulate/simulated_call.h"

namespace tutti::cli::simulate {

/// When a message was sent and received, in picoseconds from the beginning.
struct SimulatedMessage {
  int from = 0;
  int to = 0;
  std::uint32_t step = 0;  ///< its send in the plan of `from`
  double begin = 0;        ///< it was given to its port
  double end = 0;          ///< all of it had arrived
};

/// Event by event: the plans of all ranks at once, for any algorithm. Ports, shared links of hosts and leaf switches,
/// and each rank's arithmetic serve one message after the other, in the order of arrival.
///
/// Empty if the plans have too many steps to be held together (`most_steps`, step_count.h). `messages`, if given, gets
/// all of them.
std::optional<Result> run_events(const SimulatedCall& simulated, const Network& network,
                                 std::vector<SimulatedMessage>* messages = nullptr);

}  // namespace tutti::cli::simulate
