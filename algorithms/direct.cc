// Direct: every rank exchanges messages with every other rank; no data are forwarded.
//
//   one-shot all-reduce ("direct"):   all send their whole vector to all, and each adds up everything, in rank order
//   two-shot ("direct_two_shot"):     part q goes from all ranks to rank q, which adds it up in rank order
//                                     and sends the result to all
//   the others are one half of that, or the naive form of the collective: one message per pair of ranks.
// Every sum is ((x_0 + x_1) + x_2) + ...: the same bits whatever the size and transport, and right for an op that does
// not commute. A rank adds its own in the middle: what lower ranks send is summed in scratch first.
// Messages leave for the next rank first, then the one after it, so that not all begin with rank 0.
//
// Cost per rank, S bytes over n ranks, n-1 messages each:
//   one-shot all-reduce                  1 step    (n-1) S sent and reduced         scratch S
//   two-shot all-reduce                  2 steps   2(n-1)/n S sent, half reduced    scratch S/n
//   reduce_scatter, all_gather, all_to_all  1 step    (n-1)/n S sent                scratch S/n for sums
//   broadcast, reduce, scatter, gather   1 step    the root moves (n-1) S, or (n-1)/n S of parts; scratch S for reduce
// Right for few ranks, above all in shared memory; one-shot for tiny vectors, two-shot for larger ones.
// Wrong for many ranks: n(n-1) messages at once, and a root that does all the work.

#include <utility>

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {
namespace {

/// sum = the left fold, in rank order, of this rank's data and the next message of each other rank.
void fold_in_rank_order(PlanBuilder& plan, const Shape& shape, Blocks sum, Blocks own) {
  Blocks so_far = own;
  if (shape.rank > 0) {
    so_far = plan.scratch(own);
    plan.recv(0, so_far);
    for (int peer = 1; peer < shape.rank; ++peer) plan.recv_reduce(peer, so_far);
    plan.reduce(so_far, so_far, own);
  }
  for (int peer = shape.rank + 1; peer < shape.ranks; ++peer) {
    plan.recv_reduce(peer, sum, so_far);
    so_far = sum;
  }
  plan.copy(sum, so_far);
}

void send_to_all(PlanBuilder& plan, Ring ring, auto what) {
  for (int k = 1; k < ring.ranks; ++k) plan.send(ring.ahead(k), what(ring.ahead(k)));
}
void recv_from_all(PlanBuilder& plan, Ring ring, Parts where) {
  for (int k = 1; k < ring.ranks; ++k) plan.recv(ring.behind(k), where[ring.behind(k)]);
}

struct Scene {
  explicit Scene(const Shape& shape_)
      : shape(shape_), ring{shape.rank, shape.ranks}, input{shape, Buffer::input}, output{shape, Buffer::output} {}
  bool at_root() const { return shape.rank == shape.root; }
  Shape shape;
  Ring ring;
  Parts input;
  Parts output;
};

}  // namespace

Plan direct_all_reduce(const Shape& shape) {
  const Scene scene{shape};
  PlanBuilder plan{shape};
  send_to_all(plan, scene.ring, [&](int) { return scene.input.all(); });
  fold_in_rank_order(plan, shape, scene.output.all(), scene.input.all());
  return std::move(plan).build();
}

Plan direct_two_shot_all_reduce(const Shape& shape) {
  const Scene scene{shape};
  PlanBuilder plan{shape};
  send_to_all(plan, scene.ring, [&](int peer) { return scene.input[peer]; });
  fold_in_rank_order(plan, shape, scene.output[shape.rank], scene.input[shape.rank]);
  send_to_all(plan, scene.ring, [&](int) { return scene.output[shape.rank]; });
  recv_from_all(plan, scene.ring, scene.output);
  return std::move(plan).build();
}

Plan direct_reduce_scatter(const Shape& shape) {
  const Scene scene{shape};
  PlanBuilder plan{shape};
  send_to_all(plan, scene.ring, [&](int peer) { return scene.input[peer]; });
  fold_in_rank_order(plan, shape, scene.output[shape.rank], scene.input[shape.rank]);
  return std::move(plan).build();
}

Plan direct_all_gather(const Shape& shape) {
  const Scene scene{shape};
  PlanBuilder plan{shape};
  send_to_all(plan, scene.ring, [&](int) { return scene.input[shape.rank]; });
  recv_from_all(plan, scene.ring, scene.output);
  plan.copy(scene.output[shape.rank], scene.input[shape.rank]);
  return std::move(plan).build();
}

Plan direct_all_to_all(const Shape& shape) {
  const Scene scene{shape};
  PlanBuilder plan{shape, InPlace::never};
  send_to_all(plan, scene.ring, [&](int peer) { return scene.input[peer]; });
  recv_from_all(plan, scene.ring, scene.output);
  plan.copy(scene.output[shape.rank], scene.input[shape.rank]);
  return std::move(plan).build();
}

Plan direct_reduce(const Shape& shape) {
  const Scene scene{shape};
  PlanBuilder plan{shape};
  if (scene.at_root())
    fold_in_rank_order(plan, shape, scene.output.all(), scene.input.all());
  else
    plan.send(shape.root, scene.input.all());
  return std::move(plan).build();
}

Plan direct_broadcast(const Shape& shape) {
  const Scene scene{shape};
  PlanBuilder plan{shape};
  if (scene.at_root())
    send_to_all(plan, scene.ring, [&](int) { return scene.output.all(); });
  else
    plan.recv(shape.root, scene.output.all());
  return std::move(plan).build();
}

Plan direct_scatter(const Shape& shape) {
  const Scene scene{shape};
  PlanBuilder plan{shape};
  if (scene.at_root()) {
    send_to_all(plan, scene.ring, [&](int peer) { return scene.input[peer]; });
    plan.copy(scene.output[shape.rank], scene.input[shape.rank]);
  } else {
    plan.recv(shape.root, scene.output[shape.rank]);
  }
  return std::move(plan).build();
}

Plan direct_gather(const Shape& shape) {
  const Scene scene{shape};
  PlanBuilder plan{shape};
  if (scene.at_root()) {
    recv_from_all(plan, scene.ring, scene.output);
    plan.copy(scene.output[shape.rank], scene.input[shape.rank]);
  } else {
    plan.send(shape.root, scene.input[shape.rank]);
  }
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
