// Pairwise: in every round each rank has one partner.
//
//   power of two, 4 ranks:   round 1   0<->1  2<->3        partner r xor round: both talk to each other
//                            round 2   0<->2  1<->3
//                            round 3   0<->3  1<->2
//   else, 3 ranks:           round 1   0->1->2->0          send to r+round, receive from r-round
//                            round 2   0->2->1->0
//
// A round is an order of issue and not a barrier: a rank that is early begins the next round.
//
// Cost per rank, S bytes to send over n ranks: n-1 messages of S/n, all sent once; no scratch.
// Right for parts of a kilobyte and more: every byte travels once, and at any time each rank has one partner in each
// direction.
// Wrong for tiny parts: n-1 messages where bruck.cc sends log2 n.
//
// Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH (2005).

#include <bit>
#include <utility>

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {

Plan pairwise_all_to_all(const Shape& shape) {
  const Ring ring{shape.rank, shape.ranks};
  const Parts input{shape, Buffer::input}, output{shape, Buffer::output};
  const bool pairs = std::has_single_bit(static_cast<unsigned>(ring.ranks));
  PlanBuilder plan{shape, InPlace::never};
  for (int round = 1; round < ring.ranks; ++round) {
    const int to = pairs ? ring.rank ^ round : ring.ahead(round);
    const int from = pairs ? ring.rank ^ round : ring.behind(round);
    plan.send(to, input[to]);
    plan.recv(from, output[from]);
  }
  plan.copy(output[ring.rank], input[ring.rank]);
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
