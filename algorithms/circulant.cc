// Circulant: every round halves the remaining work around a circle, for any number of ranks.
//
// Rank r numbers the parts from its own on: part i of its view is part r+i. It begins with all n parts. In each round
// it sends the upper half, from `kept` on, to the rank `kept` places ahead, for which they are the first ones, and adds
// the parts from the rank `kept` places behind to its own first ones. If the number is odd, the middle part is kept
// without change.
//
//   reduce-scatter, 7 ranks:    held 7   [0 1 2 3][4 5 6]    4..6 to r+4, add what comes from r-4 to 0..2
//                               held 4   [0 1][2 3]          2..3 to r+2, add to 0..1
//                               held 2   [0][1]              1    to r+1, add to 0: done
//   All-gather runs the same rounds backwards and returns what was sent. All-reduce is one after the other.
//
// Cost per rank, S bytes over n ranks:
//   reduce-scatter   log2 n steps     (n-1)/n S sent and reduced      scratch S/2
//   all-gather       log2 n steps     (n-1)/n S sent                  no scratch
//   all-reduce       2 log2 n steps   2(n-1)/n S sent, half reduced   no scratch
// Right for small and medium messages, and wherever n is not a power of two: fewest steps, fewest bytes at once.
// Wrong when S is huge (a round's sum is not passed on before the round is over) or where far links are slow: the first
// round moves half of the data half-way around. A message whose view wraps past the last part travels as two.
//
// Traeff: Optimal, non-pipelined reduce-scatter and allreduce algorithms (2024).

#include "algorithms/circulant.h"

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {
namespace {

/// Part r of the result ends in output. Until then `sum(from, count)` says where the sums of parts [from, from + count)
/// of the view are, for from + count up to half the ranks, rounded up.
void circulant_reduce_scatter_phase(PlanBuilder& plan, const Shape& shape, auto sum) {
  const Ring ring{shape.rank, shape.ranks};
  const Parts input{shape, Buffer::input};
  for (const Halving& round : halvings(ring.ranks)) {
    const bool first = round.held == ring.ranks;
    const auto parts = [&](int from, int count) {
      return first ? input.range(ring.rank + from, count) : sum(from, count);
    };
    const bool last = round.kept == 1;
    const Blocks added = last ? Parts{shape, Buffer::output}[ring.rank] : sum(0, round.moved());
    plan.send(ring.ahead(round.kept), parts(round.kept, round.moved()));
    plan.recv_reduce(ring.behind(round.kept), added, parts(0, round.moved()));
    if (first)
      plan.copy(sum(round.moved(), round.kept - round.moved()), parts(round.moved(), round.kept - round.moved()));
  }
}

/// This rank's own part starts in `own` and is sent from there. Parts that are sent with it start in output, so `own`
/// must be output unless the own part is always sent alone. All other parts arrive in output.
void circulant_all_gather_phase(PlanBuilder& plan, const Shape& shape, Parts own) {
  const Parts output{shape, Buffer::output};
  gather_around(
      plan, {shape.rank, shape.ranks}, [](int rank) { return rank; },
      [&](int first, int count) { return (first == shape.rank ? own : output).range(first, count); });
}

}  // namespace

Plan circulant_reduce_scatter(const Shape& shape) {
  const Parts input{shape, Buffer::input};
  PlanBuilder plan{shape};
  if (shape.ranks == 1) plan.copy(Parts{shape, Buffer::output}.all(), input.all());
  const Blocks sums = plan.scratch(input.range(shape.rank, shape.ranks > 2 ? (shape.ranks + 1) / 2 : 0));
  circulant_reduce_scatter_phase(plan, shape, [&](int from, int count) {
    return Blocks{sums.buffer, sums.first + from * shape.pipeline, count * shape.pipeline};
  });
  return std::move(plan).build();
}

Plan circulant_all_gather(const Shape& shape) {
  const Parts input{shape, Buffer::input}, output{shape, Buffer::output};
  // Up to three ranks send only their own part, and copy it while other messages are in flight.
  const bool goes_alone = shape.ranks <= 3;
  PlanBuilder plan{shape};
  if (!goes_alone) plan.copy(output[shape.rank], input[shape.rank]);
  circulant_all_gather_phase(plan, shape, goes_alone ? input : output);
  if (goes_alone) plan.copy(output[shape.rank], input[shape.rank]);
  return std::move(plan).build();
}

Plan circulant_all_reduce(const Shape& shape) {
  const Parts output{shape, Buffer::output};
  PlanBuilder plan{shape};
  if (shape.ranks == 1) plan.copy(output.all(), Parts{shape, Buffer::input}.all());
  circulant_reduce_scatter_phase(plan, shape,
                                 [&](int from, int count) { return output.range(shape.rank + from, count); });
  circulant_all_gather_phase(plan, shape, output);
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
