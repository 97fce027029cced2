// Dissemination: information spreads over doubling distances, for any number of ranks.
//
//   5 ranks:   round 0   tell r+1, hear from r-1        r knows of  r, r-1
//              round 1   tell r+2, hear from r-2                    and r-2, r-3
//              round 2   tell r+4, hear from r-4                    and r-4: all
//
// A message carries a token that is combined by "or". Receiving a rank's token twice does no harm, so no number of
// ranks is a special case.
//
// Cost per rank: log2 n steps of one byte; scratch one byte per round, so that no round waits until the last has left.
// Right always: a barrier cannot take fewer steps with one message at a time.
// Wrong where 2 log2 n connections per rank are too many; see tree.cc.
//
// Hensgen, Finkel, Manber: Two algorithms for barrier synchronization (1988).

#include <utility>

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {

Plan dissemination_barrier(const Shape& shape) {
  const Ring ring{shape.rank, shape.ranks};
  PlanBuilder plan{shape};
  Blocks known = Parts{shape, Buffer::input}.piece(shape.rank, 0);
  for (int distance = 1; distance < ring.ranks; distance *= 2) {
    const Blocks more = plan.scratch(known);
    plan.send(ring.ahead(distance), known);
    plan.recv_reduce(ring.behind(distance), more, known);
    known = more;
  }
  return std::move(plan).build();
}

/// One round over all distances: n-1 messages instead of log2 n, for ranks that share memory.
Plan direct_barrier(const Shape& shape) {
  const Ring ring{shape.rank, shape.ranks};
  PlanBuilder plan{shape};
  const Blocks own = Parts{shape, Buffer::input}.piece(shape.rank, 0);
  Blocks known = own;
  for (int distance = 1; distance < ring.ranks; ++distance) plan.send(ring.ahead(distance), own);
  for (int distance = 1; distance < ring.ranks; ++distance) {
    const Blocks more = plan.scratch(own);
    plan.recv_reduce(ring.behind(distance), more, known);
    known = more;
  }
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
