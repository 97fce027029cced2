// Ring: every rank sends only to the next one and receives only from the previous one.
//
// The vector is cut into one part per rank; in n-1 steps every part travels once around the ring.
//
//   reduce-scatter, 4 ranks; what rank r sends in each step, having added its own to what came in:
//     step 0:  part r-1      step 1:  part r-2      step 2:  part r-3       then part r has seen everyone but r
//   all-gather, the finished parts make the same trip and overwrite:
//     step 0:  part r        step 1:  part r-1      step 2:  part r-2
//   all-reduce is one after the other. With pipeline p a part travels as p messages, so that the first of them moves on
//   while the last still arrives.
//
// Cost per rank, S bytes over n ranks:
//   reduce-scatter  n-1 steps      (n-1)/n S sent and reduced      scratch (n-2)/n S
//   all-gather      n-1 steps      (n-1)/n S sent                  no scratch
//   all-reduce      2(n-1) steps   2(n-1)/n S sent, half reduced   no scratch
// Right when S is large: every link is busy all the time, and nothing travels twice. Only two peers per rank.
// Wrong when S is small or n is large: its latencies come one after the other; see circulant.cc.
//
// Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations (2009).

#include <utility>

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {
namespace {

/// A part that is still being reduced is in `partial`; the last one of the trip ends in `output`.
void ring_reduce_scatter_phase(PlanBuilder& plan, const Shape& shape, auto partial) {
  const Ring ring{shape.rank, shape.ranks};
  const Parts input{shape, Buffer::input};
  Blocks carried = input[ring.behind(1)];
  for (int step = 0; step < ring.ranks - 1; ++step) {
    const Blocks own = input[ring.behind(step + 2)];
    const Blocks sum = step < ring.ranks - 2 ? partial(own) : Parts{shape, Buffer::output}[ring.rank];
    for (int k = 0; k < shape.pipeline; ++k) {
      plan.send(ring.next(), piece(carried, k));
      plan.recv_reduce(ring.prev(), piece(sum, k), piece(own, k));
    }
    carried = sum;
  }
}

/// This rank's own part starts in `own`; all others arrive in output.
void ring_all_gather_phase(PlanBuilder& plan, const Shape& shape, Parts own) {
  const Ring ring{shape.rank, shape.ranks};
  const Parts output{shape, Buffer::output};
  for (int step = 0; step < ring.ranks - 1; ++step) {
    const Parts& held = step == 0 ? own : output;
    for (int k = 0; k < shape.pipeline; ++k) {
      plan.send(ring.next(), held.piece(ring.behind(step), k));
      plan.recv(ring.prev(), output.piece(ring.behind(step + 1), k));
    }
  }
}

}  // namespace

Plan ring_reduce_scatter(const Shape& shape) {
  PlanBuilder plan{shape};
  if (shape.ranks == 1) plan.copy(Parts{shape, Buffer::output}.all(), Parts{shape, Buffer::input}.all());
  ring_reduce_scatter_phase(plan, shape, [&](Blocks part) { return plan.scratch(part); });
  return std::move(plan).build();
}

Plan ring_all_gather(const Shape& shape) {
  const Parts input{shape, Buffer::input};
  PlanBuilder plan{shape};
  ring_all_gather_phase(plan, shape, input);
  plan.copy(Parts{shape, Buffer::output}[shape.rank], input[shape.rank]);
  return std::move(plan).build();
}

Plan ring_all_reduce(const Shape& shape) {
  PlanBuilder plan{shape};
  if (shape.ranks == 1) plan.copy(Parts{shape, Buffer::output}.all(), Parts{shape, Buffer::input}.all());
  ring_reduce_scatter_phase(plan, shape, [](Blocks part) { return as(Buffer::output, part); });
  ring_all_gather_phase(plan, shape, {shape, Buffer::output});
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
