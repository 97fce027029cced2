// Chain: ranks form a row, and each passes on the sum of its own data and those before it, slice by slice.
//
//   scan, slices a b:    0 -a-> 1
//                        0 -b-> 1 -a-> 2
//                               1 -b-> 2 -a-> 3
//   A rank of an exclusive scan keeps what it received, and sends on the sum of that and its own data.
//
// Data arrive in output and are combined there. In place the rank's own data are there, so they are copied to scratch
// first, which delays no other rank. Sums are ((x_0 + x_1) + x_2) + ...: the same bits as those of scan_direct.cc.
//
// Cost per rank, S bytes over n ranks, p slices: n-2 + p steps of S/p, S sent and reduced;
//                                               scratch S, or 2 S of an exclusive scan
// Right for large vectors with a pipeline: nothing travels twice, and each rank has two neighbours.
// Wrong for small ones on many ranks: the last waits for n-1 latencies; see scan_circulant.cc.

#include <utility>

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {

Plan chain_scan(const Shape& shape) {
  const Parts input{shape, Buffer::input}, output{shape, Buffer::output};
  PlanBuilder plan{shape};
  for (int k = 0; k < shape.pipeline; ++k) {
    const Blocks own = input.slice(k), sum = output.slice(k);
    if (shape.rank > 0) {
      const Blocks aside = plan.scratch(own);
      plan.copy(aside, own);
      plan.recv(shape.rank - 1, sum);
      plan.reduce(sum, sum, aside);
    }
    if (shape.rank + 1 < shape.ranks) plan.send(shape.rank + 1, shape.rank > 0 ? sum : own);
  }
  if (shape.rank == 0) plan.copy(output.all(), input.all());
  return std::move(plan).build();
}

Plan chain_exclusive_scan(const Shape& shape) {
  const Parts input{shape, Buffer::input}, output{shape, Buffer::output};
  const bool is_last = shape.rank + 1 == shape.ranks;
  PlanBuilder plan{shape};
  for (int k = 0; k < shape.pipeline && shape.ranks > 1; ++k) {
    const Blocks own = input.slice(k), sum_before = output.slice(k);
    if (shape.rank == 0) {
      plan.send(1, own);
    } else if (is_last) {
      plan.recv(shape.rank - 1, sum_before);
    } else {
      const Blocks aside = plan.scratch(own), sum = plan.scratch(own);
      plan.copy(aside, own);
      plan.recv(shape.rank - 1, sum_before);
      plan.reduce(sum, sum_before, aside);
      plan.send(shape.rank + 1, sum);
    }
  }
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
