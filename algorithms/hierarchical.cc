// Hierarchical: groups of `radix` neighbouring ranks, or given domains of ranks that are near each other; the first of
// each group, its leader, exchanges with the other leaders.
//
//   8 ranks, radix 4:    1 2 3 -> 0    5 6 7 -> 4     the members give what they have to their leader
//                             0 <-> 4                 the leaders exchange
//                        0 -> 1 2 3    4 -> 5 6 7     and send the result to their members
//
// All-reduce: the leader sums its group, leaders double (doubling.cc), the result goes to all members. The barrier is
// an all-reduce of one byte. All-gather: leaders collect and pass on the parts of whole groups in the rounds of
// circulant.cc. Reduce-scatter: each leader sends to every other leader the sums for its group.
//
// Cost, S bytes over n ranks in groups of k, G = n/k, rounded up:
//   all-reduce      log2 G + 2 steps, two more if G is no power of two
//                                       a leader sends (k-1 + log2 G) S      scratch of leaders: up to 2 S
//   all-gather      log2 G + 2 steps    a leader sends (k-1) S + (n-k)/n S   no scratch
//   reduce-scatter  3 steps             a member sends S, to its leader      scratch of leaders: S
// Right up to some 100 KiB if a group shares a core (`tutti run --bind-to core`) and radix is the number of ranks per
// core. Then only one message crosses between two cores in each direction at a time, and on a core each rank waits only
// for its leader, so the kernel switches to each member twice. Right for tiny calls of many ranks in several domains of
// caches or memory: the data of one domain cross to another once, not once for each of its ranks. Wrong for large
// vectors: the leader moves its group's data while the others wait.
//
// Karonis, de Supinski, Foster, Gropp, Lusk, Bresnahan: Exploiting hierarchy in parallel computer networks to optimize
// collective operation performance (2000).

#include <span>
#include <utility>
#include <vector>

#include "algorithms/circulant.h"
#include "algorithms/doubling.h"
#include "algorithms/families.h"
#include "algorithms/hierarchical_groups.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {
namespace {

/// As places_of_sum(), but each has one of its own: on a board a post may lie there for some rounds.
std::vector<Blocks> places_apart(PlanBuilder& plan, Blocks output, std::size_t steps) {
  std::vector<Blocks> found(steps, output);
  for (std::size_t i = 0; i < steps; ++i)
    if (steps == 1 || i + 1 < steps) found[i] = plan.scratch(output);
  return found;
}

void sum_over_all(PlanBuilder& plan, const Shape& shape, Blocks own, Blocks output) {
  const Groups groups{shape};
  if (shape.rank != groups.leader()) {
    plan.send(groups.leader(), own);
    plan.recv(groups.leader(), output);
    return;
  }
  const Doubler doubler{groups.self, groups.count, groups.size, groups.leaders, !groups.leaders.empty()};
  const std::size_t before = groups.has_members() && groups.count > 1 ? 1 : 0;  // the group's sum needs a place, too
  const std::size_t steps = before + doubler.partners().size();
  const std::vector<Blocks> places =
      doubler.lands ? places_apart(plan, output, steps) : places_of_sum(plan, output, steps);
  const Blocks sum = sum_group(plan, groups, own, before > 0 ? places.front() : output);
  double_sums(plan, doubler, sum, std::span(places).subspan(before), output);
  for_members(groups, [&](int rank) { plan.send(rank, output); });
}

}  // namespace

Plan hierarchical_all_reduce(const Shape& shape) {
  PlanBuilder plan{shape};
  sum_over_all(plan, shape, Parts{shape, Buffer::input}.all(), Parts{shape, Buffer::output}.all());
  return std::move(plan).build();
}

Plan hierarchical_barrier(const Shape& shape) {
  PlanBuilder plan{shape};
  const Blocks token = Parts{shape, Buffer::input}.piece(shape.rank, 0);
  if (shape.ranks > 1) sum_over_all(plan, shape, token, plan.scratch(token));
  return std::move(plan).build();
}

Plan hierarchical_all_gather(const Shape& shape) {
  const Groups groups{shape};
  const Parts output{shape, Buffer::output};
  PlanBuilder plan{shape};
  const Blocks own = Parts{shape, Buffer::input}[shape.rank];
  if (shape.rank != groups.leader()) {
    plan.send(groups.leader(), own);
    plan.recv(groups.leader(), output.all());  // with its own part: two messages around that would cost more
    return std::move(plan).build();
  }
  plan.copy(output[shape.rank], own);
  for_members(groups, [&](int rank) { plan.recv(rank, output[rank]); });
  gather_around(
      plan, {groups.self, groups.count}, [&](int group) { return groups.leader_of(group); },
      [&](int first, int count) { return groups.parts(output, first, count); });
  for_members(groups, [&](int rank) { plan.send(rank, output.all()); });
  return std::move(plan).build();
}

Plan hierarchical_reduce_scatter(const Shape& shape) {
  const Groups groups{shape};
  const Blocks input = Parts{shape, Buffer::input}.all();
  const Blocks own_part = Parts{shape, Buffer::output}[shape.rank];
  const Ring ring{groups.self, groups.count};
  PlanBuilder plan{shape};
  if (shape.rank != groups.leader()) {
    plan.send(groups.leader(), input);
    plan.recv(groups.leader(), own_part);
    return std::move(plan).build();
  }
  const Blocks sum = sum_group(plan, groups, input, groups.has_members() ? plan.scratch(input) : input);
  const auto parts = [&](int first, int count) {
    return Blocks{sum.buffer, sum.first + first * shape.pipeline, count * shape.pipeline};
  };
  const auto of_group = [&](int group) { return parts(groups.leader_of(group), groups.size_of(group)); };
  Blocks own = of_group(groups.self);
  const Blocks total = groups.has_members() ? own : own_part;
  for (int distance = 1; distance < groups.count; ++distance) {
    plan.send(groups.leader_of(ring.ahead(distance)), of_group(ring.ahead(distance)));
    plan.recv_reduce(groups.leader_of(ring.behind(distance)), total, std::exchange(own, total));
  }
  for_members(groups, [&](int rank) { plan.send(rank, parts(rank, 1)); });
  plan.copy(own_part, groups.has_members() ? parts(shape.rank, 1) : own);
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
