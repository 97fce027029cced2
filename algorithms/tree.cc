// Tree: the k-nomial tree (binomial for radix 2). Every rank that has the data helps to spread them.
//
//   broadcast, 8 ranks, radix 2:     0 -> 4
//                                    0 -> 2   4 -> 6
//                                    0 -> 1   2 -> 3   4 -> 5   6 -> 7
//   reduce is the same in reverse: children send to their parent, which adds them up. Scatter sends with each arrow the
//   parts of the whole subtree, which lie side by side; gather is its reverse. All-reduce is reduce, then broadcast;
//   the barrier is an all-reduce of one byte. With pipeline p the vector goes down as p slices, one behind the other.
//
// Cost per rank, S bytes over n ranks, radix k:
//   broadcast, reduce   log_k n steps     the root moves (k-1) log_k n times S    reduce: scratch S below the root
//   scatter, gather     log_k n steps     the root moves (n-1)/n S                scratch: the subtree
//   all-reduce          2 log_k n steps   twice as much                           no scratch
// Right for small messages: fewest steps. Use a larger radix if starting a message is cheap compared with its latency.
// Wrong for large ones: the root sends S several times over; see chain.cc, double_binary_tree.cc,
// scatter_all_gather.cc.
//
// Chan, Heimlich, Purkayastha, van de Geijn: Collective communication: theory, practice, and experience (2007).

#include "algorithms/tree.h"

#include <utility>

#include "algorithms/families.h"

namespace tutti::algorithms {
namespace {

/// This rank's place in the tree below the root, with the real ranks of its neighbours.
struct Place {
  explicit Place(const Shape& shape)
      : rotated{shape.root, shape.ranks}, tree{shape.ranks, shape.radix}, self(rotated.to_virtual(shape.rank)) {
    parent = self == 0 ? -1 : rotated.to_rank(tree.parent(self));
    for (const int child : tree.children(self)) children.push_back(rotated.to_rank(child));
  }
  int size_of(int rank) const { return tree.size(rotated.to_virtual(rank)); }

  Rotated rotated;
  KnomialTree tree;
  int self;
  int parent;
  std::vector<int> children;
};

void broadcast_slice(PlanBuilder& plan, const Place& place, Blocks slice) {
  if (place.parent >= 0) plan.recv(place.parent, slice);
  for (const int child : place.children) plan.send(child, slice);
}

/// The sum of the subtree ends in `sum`, unless this rank is a leaf, which just sends its own data.
void reduce_slice(PlanBuilder& plan, const Place& place, Blocks sum, Blocks own) {
  Blocks so_far = own;
  for (auto child = place.children.rbegin(); child != place.children.rend(); ++child) {
    plan.recv_reduce(*child, sum, so_far);
    so_far = sum;
  }
  if (place.parent >= 0) plan.send(place.parent, so_far);
}

/// Calls `move(peer, blocks)` for the parts of a subtree. At the root they are in input or output and may wrap around
/// there, so the other end, which has them in scratch, must cut the message at the same place.
void cut_beside_root(const Shape& shape, const Place& place, Blocks parts, auto move) {
  const int until_wrap = (shape.ranks - shape.rank) * shape.pipeline;
  if (place.parent != shape.root || parts.count <= until_wrap) return move(place.parent, parts);
  move(place.parent, Blocks{parts.buffer, parts.first, until_wrap});
  move(place.parent, Blocks{parts.buffer, parts.first + until_wrap, parts.count - until_wrap});
}

/// The parts of a child's subtree within those of `rank`'s subtree.
Blocks parts_of_child(const Shape& shape, const Place& place, Blocks parts, int child) {
  const int offset = place.rotated.to_virtual(child) - place.self;
  return {parts.buffer, parts.first + offset * shape.pipeline, place.size_of(child) * shape.pipeline};
}

}  // namespace

Plan tree_broadcast(const Shape& shape) {
  const Place place{shape};
  PlanBuilder plan{shape};
  for (int k = 0; k < shape.pipeline; ++k) broadcast_slice(plan, place, Parts{shape, Buffer::output}.slice(k));
  return std::move(plan).build();
}

Plan tree_reduce(const Shape& shape) {
  const Place place{shape};
  const Parts input{shape, Buffer::input};
  PlanBuilder plan{shape};
  if (shape.ranks == 1) plan.copy(Parts{shape, Buffer::output}.all(), input.all());
  for (int k = 0; k < shape.pipeline; ++k) {
    const Blocks own = input.slice(k);
    const bool at_root = place.parent < 0;
    const Blocks sum = at_root ? as(Buffer::output, own) : place.children.empty() ? Blocks{} : plan.scratch(own);
    reduce_slice(plan, place, sum, own);
  }
  return std::move(plan).build();
}

Plan tree_all_reduce(const Shape& shape) {
  const Place place{shape};
  const Parts input{shape, Buffer::input}, output{shape, Buffer::output};
  PlanBuilder plan{shape};
  if (shape.ranks == 1) plan.copy(output.all(), input.all());
  for (int k = 0; k < shape.pipeline; ++k) reduce_slice(plan, place, output.slice(k), input.slice(k));
  for (int k = 0; k < shape.pipeline; ++k) broadcast_slice(plan, place, output.slice(k));
  return std::move(plan).build();
}

Plan tree_barrier(const Shape& shape) {
  const Place place{shape};
  PlanBuilder plan{shape};
  const Blocks token = Parts{shape, Buffer::input}.piece(shape.rank, 0);
  const Blocks seen = plan.scratch(token);
  reduce_slice(plan, place, seen, token);
  broadcast_slice(plan, place, seen);
  return std::move(plan).build();
}

Plan tree_scatter(const Shape& shape) {
  const Place place{shape};
  const Parts input{shape, Buffer::input};
  const Blocks own_part = Parts{shape, Buffer::output}[shape.rank];
  PlanBuilder plan{shape};
  Blocks parts = input.range(shape.rank, place.tree.size(place.self));
  if (place.parent >= 0) {
    parts = place.children.empty() ? own_part : plan.scratch(parts);
    cut_beside_root(shape, place, parts, [&](int parent, Blocks cut) { plan.recv(parent, cut); });
  }
  for (const int child : place.children) plan.send(child, parts_of_child(shape, place, parts, child));
  plan.copy(own_part, {parts.buffer, parts.first, shape.pipeline});
  return std::move(plan).build();
}

Plan tree_gather(const Shape& shape) {
  const Place place{shape};
  const Blocks own_part = Parts{shape, Buffer::input}[shape.rank];
  PlanBuilder plan{shape};
  Blocks parts = Parts{shape, Buffer::output}.range(shape.rank, place.tree.size(place.self));
  if (place.parent >= 0) parts = place.children.empty() ? own_part : plan.scratch(parts);
  plan.copy({parts.buffer, parts.first, shape.pipeline}, own_part);
  for (auto child = place.children.rbegin(); child != place.children.rend(); ++child)
    plan.recv(*child, parts_of_child(shape, place, parts, *child));
  if (place.parent >= 0) cut_beside_root(shape, place, parts, [&](int parent, Blocks cut) { plan.send(parent, cut); });
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
