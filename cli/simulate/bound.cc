#include "cli/simulate/bound.h"

#include <algorithm>

namespace tutti::cli::simulate {

double least_time(const SimulatedCall& simulated, const Network& network) {
  const BlockSizes sizes{simulated};
  double least = 0;
  for (const int rank : {0, simulated.ranks / 3, simulated.root}) {
    const algorithms::Plan plan = simulated.plan(rank);
    double busy[2] = {0, 0};     // each port, into the host and out of it
    double longest[2] = {0, 0};  // gaps at the end, for which nothing waits
    for (const algorithms::Step& step : plan.steps) {
      if (step.verb != algorithms::Verb::send) continue;
      const Distance distance = network.distance(rank, step.peer);
      const std::size_t bytes = sizes.of(plan, step.left);
      if (bytes == 0) continue;  // not sent
      const MessageCost cost = network.cost(distance, bytes);
      const std::size_t port = distance >= Distance::leaf ? 1 : 0;
      busy[port] += cost.transfer + cost.gap;
      longest[port] = std::max(longest[port], cost.gap);
    }
    for (int port = 0; port < 2; ++port) least = std::max(least, busy[port] - longest[port]);
  }
  return (network.start + least) * 1e-12;
}

}  // namespace tutti::cli::simulate
