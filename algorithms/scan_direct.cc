// Direct: every rank sends its data to all ranks that need them.
//
//   one-shot ("direct"):           each rank sends its vector to all ranks after it, and sums up what it receives,
//                                  in rank order
//   two-shot ("direct_two_shot"):  part q goes from all ranks to rank q, which computes the sums of all ranks for it
//                                  and sends to rank r that of the ranks up to r, or before r
// Sums are ((x_0 + x_1) + x_2) + ...: the same bits whatever the size and transport.
//
// Cost, S bytes over n ranks:
//   one-shot   1 step    rank r sends (n-1-r) S, reduces r S      scratch S
//   two-shot   2 steps   2(n-1)/n S sent, half of that reduced    scratch S
// Right for few ranks: one-shot for tiny vectors; two-shot for larger ones, since it divides the work evenly.
// Wrong for many ranks, with n(n-1)/2 messages at once or twice as many; and for huge vectors, which the two-shot form
// moves twice.

#include <utility>
#include <vector>

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {
namespace {

Plan one_shot(const Shape& shape, bool inclusive) {
  const Blocks own = Parts{shape, Buffer::input}.all(), output = Parts{shape, Buffer::output}.all();
  PlanBuilder plan{shape};
  for (int peer = shape.rank + 1; peer < shape.ranks; ++peer) plan.send(peer, own);
  if (shape.rank == 0) {
    if (inclusive) plan.copy(output, own);
    return std::move(plan).build();
  }
  const Blocks sum = plan.scratch(own);
  plan.recv(0, sum);
  for (int peer = 1; peer < shape.rank; ++peer) plan.recv_reduce(peer, sum);
  if (inclusive) plan.reduce(sum, sum, own);
  plan.copy(output, sum);
  return std::move(plan).build();
}

/// Where the sums of ranks 0 to r of this rank's part end, for all r below `contributing`.
std::vector<Blocks> sum_part(PlanBuilder& plan, const Shape& shape, int contributing) {
  const Blocks own = Parts{shape, Buffer::input}[shape.rank];
  std::vector<Blocks> sums;
  for (int rank = 0; rank < contributing; ++rank) {
    const bool is_own = rank == shape.rank;
    const Blocks sum = rank == 0 && is_own ? own : plan.scratch(own);
    if (rank == 0 && !is_own) plan.recv(0, sum);
    if (rank > 0 && is_own) plan.reduce(sum, sums.back(), own);
    if (rank > 0 && !is_own) plan.recv_reduce(rank, sum, sums.back());
    sums.push_back(sum);
  }
  return sums;
}

Plan two_shot(const Shape& shape, bool inclusive) {
  const Ring ring{shape.rank, shape.ranks};
  const Parts input{shape, Buffer::input}, output{shape, Buffer::output};
  const int contributing = inclusive ? shape.ranks : shape.ranks - 1;  // the last rank contributes to no sum
  const int first = inclusive ? 0 : 1;                                 // the rank whose result is the first sum
  PlanBuilder plan{shape};
  if (shape.rank < contributing)
    for (int k = 1; k < ring.ranks; ++k) plan.send(ring.ahead(k), input[ring.ahead(k)]);
  const std::vector<Blocks> sums = sum_part(plan, shape, contributing);
  // Rank 0 has its result in its input, or gets none.
  for (int rank = 1; rank < shape.ranks; ++rank) {
    const Blocks sum = sums[static_cast<std::size_t>(rank - first)];
    if (rank == shape.rank)
      plan.copy(output[rank], sum);
    else
      plan.send(rank, sum);
  }
  for (int k = 1; k < ring.ranks && shape.rank > 0; ++k) plan.recv(ring.behind(k), output[ring.behind(k)]);
  if (inclusive && shape.rank == 0) plan.copy(output.all(), input.all());
  return std::move(plan).build();
}

}  // namespace

Plan direct_scan(const Shape& shape) { return one_shot(shape, true); }
Plan direct_exclusive_scan(const Shape& shape) { return one_shot(shape, false); }
Plan direct_two_shot_scan(const Shape& shape) { return two_shot(shape, true); }
Plan direct_two_shot_exclusive_scan(const Shape& shape) { return two_shot(shape, false); }

}  // namespace tutti::algorithms
