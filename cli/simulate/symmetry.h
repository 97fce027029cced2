#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/simulate/simulated_call.h"

namespace tutti::cli::simulate {

/// A step that every rank does, with its peers and parts counted from itself.
struct Beat {
  algorithms::Verb verb{};
  int ahead = 0;              ///< distance of the peer, around the circle
  int part = 0;               ///< distance of the part of the first block
  int piece = 0;              ///< number of the first block within its part
  int count = 1;              ///< blocks, all of one part
  std::uint32_t match = 0;    ///< of a receive: the sender's beat for its message
  std::uint32_t befores = 0;  ///< index of the first beat that it waits for
};

/// The plan of all ranks at once, if all ranks do the same around a circle, as in a ring.
struct Rotation {
  std::vector<Beat> beats;  ///< and one after the last
  std::vector<std::uint32_t> befores;
};

/// Empty if the plans are not rotations of each other. Compares the plans of all ranks. If these have too many steps,
/// it compares a sample spread over the ranks that has some millions of steps.
std::optional<Rotation> find_rotation(const SimulatedCall& simulated);

}  // namespace tutti::cli::simulate
