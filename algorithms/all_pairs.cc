// All pairs: part q of the vector is summed at rank q and sent on from there, in slices that follow each other closely.
//
//   4 ranks, what rank 2 does with slice k:    send slice k of part 3, 0, 1 to its rank
//                                              sum up slice k of part 2: its own, then those of ranks 1, 0, 3
//   and with slice k-1, while others do that:  send the sum to 3, 0, 1; take theirs
//
// It sends the same messages as `direct_two_shot`, but does not sum in rank order. A sum begins with the rank's own
// contribution, so no scratch is needed, and a part's slices are sent on as soon as they are summed. With small enough
// slices, the received data, their sum and the data sent are still in the core's cache when they are used.
//
// Cost per rank, S bytes over n ranks, n-1 messages at a time; no scratch:
//   all-reduce      2 steps   2(n-1)/n S sent, half reduced
//   reduce-scatter  1 step    (n-1)/n S sent and reduced
//   reduce          2 steps   (n-1)/n S sent and reduced, then S/n to the root
// Right for few ranks and medium or large vectors in shared memory: all ranks work all the time, and few steps depend
// on each other. Wrong for many ranks: n(n-1) messages a slice.

#include <utility>

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {
namespace {

/// Slices that are sent out to be summed before the rank waits for the first sum.
constexpr int lead = 1;

struct PairwiseExchange {
  PairwiseExchange(const Shape& shape_, PlanBuilder& plan_)
      : shape(shape_), plan(plan_), ring{shape.rank, shape.ranks}, input{shape, Buffer::input} {}

  /// Sums slice k of this rank's part in `sum`.
  void reduce(int k, Blocks sum) {
    for (int j = 1; j < ring.ranks; ++j) plan.send(ring.ahead(j), input.piece(ring.ahead(j), k));
    Blocks so_far = input.piece(ring.rank, k);
    for (int j = 1; j < ring.ranks; ++j) {
      plan.recv_reduce(ring.behind(j), sum, so_far);
      so_far = sum;
    }
    plan.copy(sum, so_far);
  }

  Shape shape;
  PlanBuilder& plan;
  Ring ring;
  Parts input;
};

}  // namespace

Plan all_pairs_all_reduce(const Shape& shape) {
  PlanBuilder plan{shape};
  PairwiseExchange exchange{shape, plan};
  const Ring ring = exchange.ring;
  const Parts output{shape, Buffer::output};
  for (int k = 0; k < shape.pipeline + lead; ++k) {
    if (k < shape.pipeline) exchange.reduce(k, output.piece(ring.rank, k));
    if (k < lead) continue;
    for (int j = 1; j < ring.ranks; ++j) plan.send(ring.ahead(j), output.piece(ring.rank, k - lead));
    for (int j = 1; j < ring.ranks; ++j) plan.recv(ring.behind(j), output.piece(ring.behind(j), k - lead));
  }
  return std::move(plan).build();
}

Plan all_pairs_reduce_scatter(const Shape& shape) {
  PlanBuilder plan{shape};
  PairwiseExchange exchange{shape, plan};
  for (int k = 0; k < shape.pipeline; ++k) exchange.reduce(k, Parts{shape, Buffer::output}.piece(shape.rank, k));
  return std::move(plan).build();
}

Plan all_pairs_reduce(const Shape& shape) {
  PlanBuilder plan{shape};
  PairwiseExchange exchange{shape, plan};
  const Parts output{shape, Buffer::output};
  const bool at_root = shape.rank == shape.root;
  std::vector<Blocks> sums;
  for (int k = 0; k < shape.pipeline + lead; ++k) {
    if (k < shape.pipeline) {
      const Blocks own = output.piece(shape.rank, k);
      sums.push_back(at_root ? own : plan.scratch(own));
      exchange.reduce(k, sums.back());
    }
    if (k < lead) continue;
    const int done = k - lead;
    if (!at_root) plan.send(shape.root, sums[static_cast<std::size_t>(done)]);
    for (int peer = 0; at_root && peer < shape.ranks; ++peer)
      if (peer != shape.root) plan.recv(peer, output.piece(peer, done));
  }
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
