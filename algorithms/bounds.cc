// Steps: what is known to k ranks is known to 2k a step later at best. Bytes: what must leave the root or reach it, or
// else what all ranks must send together, shared out evenly.

#include "algorithms/bounds.h"

#include <bit>

namespace tutti::algorithms {

Bounds lower_bounds(Collective collective, int ranks) {
  if (ranks < 2) return {};
  const int steps = static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::all_reduce:
      return {steps, 2 * others, 2 * others, others};
    case Collective::reduce:
      return {steps, 1, 1, others};
    case Collective::broadcast:
      return {steps, 1, 1, 0};
    case Collective::reduce_scatter:
      return {steps, others, others, others};
    case Collective::all_gather:
    case Collective::all_to_all:
      return {steps, others, others, 0};
    case Collective::scatter:
      return {steps, others, 1.0 / ranks, 0};
    case Collective::gather:
      return {steps, 1.0 / ranks, others, 0};
    case Collective::barrier:
      return {steps, 0, 0, 0};
  }
  return {};
}

}  // namespace tutti::algorithms
