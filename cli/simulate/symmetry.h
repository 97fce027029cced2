#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/simulate/task.h"

namespace tutti::cli::simulate {

/// A step that every rank does, with its peers and parts counted from itself.
struct Beat {
  algorithms::Verb verb{};
  int ahead = 0;              ///< the peer is so many ranks ahead, around the circle
  int part = 0;               ///< the first block lies so many parts ahead
  int piece = 0;              ///< and is this one of its part
  int count = 1;              ///< blocks, all of one part
  std::uint32_t match = 0;    ///< of a receive: which beat of the sender its message is
  std::uint32_t befores = 0;  ///< where the beats that it waits for begin
};

/// The plan of all ranks at once, if all ranks do the same around the circle, as in a ring.
struct Rotation {
  std::vector<Beat> beats;  ///< and one after the last
  std::vector<std::uint32_t> befores;
};

/// Empty if the plans are not each other's rotations. Compares those of all ranks, or, where there are millions of
/// steps, of as many as make some millions, spread over all.
std::optional<Rotation> find_rotation(const Task& task);

}  // namespace tutti::cli::simulate
