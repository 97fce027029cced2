#pragma once

#include "tutti/types.h"

namespace tutti::algorithms {

/// The least that any algorithm needs if a rank sends one message at a time and receives one at a time.
struct Bounds {
  int steps = 0;    ///< messages one after the other
  double sent = 0;  ///< by the rank that sends most, as a part of the whole vector
  double received = 0;
  double reduced = 0;  ///< added up by the rank that adds up most
};

/// Chan, Heimlich, Purkayastha, van de Geijn: Collective communication: theory, practice, and experience (2007); for
/// all_reduce Patarasuk, Yuan (2009).
Bounds lower_bounds(Collective collective, int ranks);

/// The least part of the vector that the busiest direction of a rank must carry. From this, nccl-tests computes the
/// "bus bandwidth" of a call, which can be compared with the bandwidth of a link.
double bus_factor(Collective collective, int ranks);

}  // namespace tutti::algorithms
