#pragma once

#include "tutti/types.h"

namespace tutti::algorithms {

/// What no algorithm can do with less than, where a rank sends one message at a time and receives one at a time.
struct Bounds {
  int steps = 0;    ///< messages one after the other
  double sent = 0;  ///< by the rank that sends most, as a part of the whole vector
  double received = 0;
  double reduced = 0;  ///< added up by the rank that adds up most
};

/// Chan, Heimlich, Purkayastha, van de Geijn: Collective communication: theory, practice, and experience (2007); for
/// all_reduce Patarasuk, Yuan (2009).
Bounds lower_bounds(Collective collective, int ranks);

/// The part of the vector that the busiest direction of a rank must carry at least: with it nccl-tests makes a "bus
/// bandwidth", which can be compared with that of a link, of a call's size and time.
double bus_factor(Collective collective, int ranks);

}  // namespace tutti::algorithms
