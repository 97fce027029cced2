// Chain: ranks form a row behind the root and pass slices on, one after the other.
//
//   broadcast, slices a b c:     root -a-> 1
//                                root -b-> 1 -a-> 2
//                                root -c-> 1 -b-> 2 -a-> 3        all links are busy until the root runs dry
//   reduce is the same in reverse: the last rank begins, each adds its own and hands the sum towards the root.
//   All-reduce is reduce to rank 0, then broadcast from it; slices go back while later ones still arrive.
//
// Cost per rank, S bytes over n ranks, p slices:
//   broadcast, reduce   n-2 + p steps of S/p      S sent, or reduced         reduce: scratch S below the root
//   all-reduce          2(n-2) + p steps of S/p   2S sent, S reduced         no scratch
// Right for huge vectors on few ranks with a pipeline of many slices (best in proportion to sqrt(n S)): everything
// travels once, and each rank has two neighbours only.
// Wrong without a pipeline, and for many ranks: the last one waits for n-1 latencies; see double_binary_tree.cc.

#include <utility>

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {
namespace {

/// The neighbours towards the root and away from it; -1 at the ends.
struct Link {
  explicit Link(const Shape& shape) {
    const Rotated rotated{shape.root, shape.ranks};
    const int self = rotated.to_virtual(shape.rank);
    if (self > 0) before = rotated.to_rank(self - 1);
    if (self + 1 < shape.ranks) behind = rotated.to_rank(self + 1);
  }
  int before = -1;
  int behind = -1;
};

void pass_on(PlanBuilder& plan, Link link, Blocks slice) {
  if (link.before >= 0) plan.recv(link.before, slice);
  if (link.behind >= 0) plan.send(link.behind, slice);
}

void add_and_return(PlanBuilder& plan, Link link, Blocks sum, Blocks own) {
  if (link.behind >= 0) plan.recv_reduce(link.behind, sum, own);
  if (link.before >= 0) plan.send(link.before, link.behind >= 0 ? sum : own);
}

}  // namespace

Plan chain_broadcast(const Shape& shape) {
  PlanBuilder plan{shape};
  for (int k = 0; k < shape.pipeline; ++k) pass_on(plan, Link{shape}, Parts{shape, Buffer::output}.slice(k));
  return std::move(plan).build();
}

Plan chain_reduce(const Shape& shape) {
  const Link link{shape};
  PlanBuilder plan{shape};
  if (shape.ranks == 1) plan.copy(Parts{shape, Buffer::output}.all(), Parts{shape, Buffer::input}.all());
  for (int k = 0; k < shape.pipeline; ++k) {
    const Blocks own = Parts{shape, Buffer::input}.slice(k);
    const bool at_root = link.before < 0;
    const Blocks sum = at_root ? as(Buffer::output, own) : link.behind < 0 ? own : plan.scratch(own);
    add_and_return(plan, link, sum, own);
  }
  return std::move(plan).build();
}

Plan chain_all_reduce(const Shape& shape) {
  const Link link{shape};
  const Parts input{shape, Buffer::input}, output{shape, Buffer::output};
  PlanBuilder plan{shape};
  if (shape.ranks == 1) plan.copy(output.all(), input.all());
  for (int k = 0; k < shape.pipeline; ++k) add_and_return(plan, link, output.slice(k), input.slice(k));
  for (int k = 0; k < shape.pipeline; ++k) pass_on(plan, link, output.slice(k));
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
