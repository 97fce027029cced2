// Hierarchical reduce and broadcast: groups as in hierarchical.cc. The root leads its group, and exchanges data with
// the leader of each other group itself.
//
//   8 ranks, radix 4, root 0, broadcast:    0 -> 4      0 -> 1 2 3    4 -> 5 6 7
//   a reduce takes the same ways back: members and leaders send what they have summed
//
// Cost, S bytes over n ranks in groups of k, G = n/k, rounded up:
//   reduce          2 steps             the root receives (k-1 + G-1) S      scratch of leaders: S
//   broadcast       2 steps             the root sends (k-1 + G-1) S         no scratch
// Right for tiny vectors and few groups, which are domains of caches or memory. Wrong for many groups, since the root
// serves all of them, and for large vectors, which are moved by leaders while the others wait.

#include <utility>

#include "algorithms/families.h"
#include "algorithms/hierarchical_groups.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {

Plan hierarchical_reduce(const Shape& shape) {
  const Groups groups{shape, shape.root};
  const Blocks input = Parts{shape, Buffer::input}.all(), output = Parts{shape, Buffer::output}.all();
  PlanBuilder plan{shape};
  if (shape.rank != groups.leader()) {
    plan.send(groups.leader(), input);
  } else if (shape.rank != shape.root) {
    const Blocks sum = sum_group(plan, groups, input, groups.has_members() ? plan.scratch(input) : input);
    plan.send(shape.root, sum);
  } else {
    Blocks so_far = sum_group(plan, groups, input, output);
    for (const bool with_members : {false, true})  // those that need not wait for members come first
      for (int group = 0; group < groups.count; ++group)
        if (group != groups.self && groups.has_members(group) == with_members)
          plan.recv_reduce(groups.leader_of(group), output, std::exchange(so_far, output));
    plan.copy(output, so_far);
  }
  return std::move(plan).build();
}

Plan hierarchical_broadcast(const Shape& shape) {
  const Groups groups{shape, shape.root};
  const Blocks output = Parts{shape, Buffer::output}.all();
  PlanBuilder plan{shape};
  if (shape.rank != groups.leader()) plan.recv(groups.leader(), output);
  if (shape.rank == groups.leader() && shape.rank != shape.root) plan.recv(shape.root, output);
  for (int group = 0; group < groups.count && shape.rank == shape.root; ++group)
    if (group != groups.self) plan.send(groups.leader_of(group), output);
  if (shape.rank == groups.leader()) for_members(groups, [&](int rank) { plan.send(rank, output); });
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
