#include "cli/simulate/step_count.h"

#include <algorithm>

#include "algorithms/catalogue.h"

namespace tutti::cli::simulate {
namespace {

double steps_of(const SimulatedCall& simulated, int rank) {
  const algorithms::Choice& choice = simulated.choice;
  if (simulated.given) return static_cast<double>(simulated.plan(rank).steps.size());
  return static_cast<double>(
      count_steps(*choice.entry, algorithms::shape_of(choice, rank, simulated.ranks, simulated.root)));
}

/// A rank in the middle and the last one stand for all but the root.
double steps_of_most(const SimulatedCall& simulated) {
  return std::max(steps_of(simulated, simulated.ranks / 3), steps_of(simulated, simulated.ranks - 1));
}

}  // namespace

double steps_of_one(const SimulatedCall& simulated) {
  return std::max(steps_of_most(simulated), steps_of(simulated, simulated.root));
}

double steps_of_all(const SimulatedCall& simulated) {
  return steps_of_most(simulated) * simulated.ranks + steps_of(simulated, simulated.root);
}

}  // namespace tutti::cli::simulate
