#pragma once

#include "cli/simulate/simulated_call.h"

namespace tutti::cli::simulate {

/// The most steps that can be held together: 2 GB.
inline constexpr double most_steps = 48e6;

/// How many steps the longest of a few ranks' plans has, the root's among them, without building one of gigabytes.
double steps_of_one(const SimulatedCall& simulated);
/// An estimate from the plans of a few ranks, the root among them.
double steps_of_all(const SimulatedCall& simulated);

}  // namespace tutti::cli::simulate
