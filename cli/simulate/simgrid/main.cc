// tutti-simgrid: `tutti simulate --simgrid` starts it for each call, since SimGrid allows one simulation per process.
// Arguments are COLLECTIVE ALGORITHM RANKS ROOT BYTES NETWORK. It prints the time of the call in seconds, or an error,
// on standard output; standard error belongs to SimGrid.

#include <fmt/core.h>
#include <xbt/log.h>

#include <cstdio>
#include <exception>
#include <simgrid/s4u.hpp>
#include <string>

#include "cli/simulate/simgrid/replay.h"

int main(int argc, char** argv) {
  using namespace tutti;
  if (argc != 7) {
    std::fputs("tutti-simgrid is started by tutti simulate --simgrid\n", stderr);
    return 2;
  }
  try {
    int own = 1;  // the arguments are ours, not SimGrid's
    const ::simgrid::s4u::Engine engine{&own, argv};
    xbt_log_control_set("root.thres:warning");
    cli::simulate::SimulatedCall simulated;
    simulated.collective = algorithms::find_collective(argv[1]);
    simulated.ranks = std::stoi(argv[3]);
    simulated.root = std::stoi(argv[4]);
    simulated.bytes = std::stoull(argv[5]);
    simulated.choice = settled(algorithms::find(simulated.collective, argv[2]), simulated.ranks, simulated.bytes);
    const auto network = cli::simulate::NetworkFile::open(argv[6]).for_algorithm(simulated.choice.entry->name);
    fmt::print("{:.15g}\n", cli::simgrid::replay(simulated, network));
    return 0;
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
