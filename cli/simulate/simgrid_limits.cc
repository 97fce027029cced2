#include "cli/simulate/simgrid_limits.h"

#include <fmt/core.h>

#include "tutti/error.h"

namespace tutti::cli::simulate {
namespace {

constexpr int most_ranks_of_simgrid = 512;
constexpr std::size_t most_steps_of_simgrid = 50'000;

}  // namespace

void refuse_too_large_for_simgrid(const SimulatedCall& simulated) {
  std::size_t steps = 0;
  for (int rank = 0; rank < simulated.ranks; ++rank) {
    if (simulated.ranks <= most_ranks_of_simgrid) steps += simulated.plan(rank).steps.size();
    if (simulated.ranks > most_ranks_of_simgrid || steps > most_steps_of_simgrid)
      throw Error(
          ErrorCode::unsupported,
          fmt::format("simulate: {} over {} ranks is too large for SimGrid, which is given {} ranks and {} "
                      "steps at most; take fewer ranks or a shorter pipeline.",
                      to_string(simulated.choice), simulated.ranks, most_ranks_of_simgrid, most_steps_of_simgrid));
  }
}

}  // namespace tutti::cli::simulate
