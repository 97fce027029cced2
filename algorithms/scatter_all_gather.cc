// Scatter, then all-gather: a broadcast in which the root sends the data only once.
//
// The root scatters the parts down a binomial tree (tree.cc); then all ranks gather them in the rounds of circulant.cc.
// After the scatter an inner rank already holds the parts of its whole subtree; those are not sent to it again.
//
//   4 ranks, parts a b c d:    scatter       0 -cd-> 2    0 -b-> 1    2 -d-> 3
//                              all-gather    2 gets ab, 1 gets acd, 3 gets abc
//
// Cost per rank, S bytes over n ranks: 2 log2 n steps, the root sends (n-1)/n S twice at most, all others less; no
// scratch. Right for medium and large vectors without a pipeline: about 2 S instead of the S log2 n of a tree. Wrong
// for small ones (twice the steps of tree.cc) and huge ones (chain.cc and double_binary_tree.cc move S once).
//
// Barnett, Gupta, Payne, Shuler, van de Geijn, Watts: Interprocessor collective communication library (1994).

#include <algorithm>
#include <utility>

#include "algorithms/circulant.h"
#include "algorithms/families.h"
#include "algorithms/tree.h"

namespace tutti::algorithms {

Plan scatter_all_gather_broadcast(const Shape& shape) {
  const Rotated rotated{shape.root, shape.ranks};
  const KnomialTree tree{shape.ranks, 2};
  const Parts output{shape, Buffer::output};
  const int self = rotated.to_virtual(shape.rank);
  const auto parts = [&](int from, int count) {
    return output.range(rotated.to_rank(from % shape.ranks), std::max(count, 0));
  };
  PlanBuilder plan{shape};

  if (self != 0) plan.recv(rotated.to_rank(tree.parent(self)), parts(self, tree.size(self)));
  for (const int child : tree.children(self)) plan.send(rotated.to_rank(child), parts(child, tree.size(child)));

  const std::vector<Halving> rounds = halvings(shape.ranks);
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    const Ring ring{self, shape.ranks};
    const int to = ring.behind(round->kept), from = ring.ahead(round->kept);
    const int lacking_there = std::max(round->kept, tree.size(to));  // in the numbering of `to`, whose own part is 0
    const int lacking_here = std::max(round->kept, tree.size(self));
    plan.send(rotated.to_rank(to), parts(to + lacking_there, round->held - lacking_there));
    plan.recv(rotated.to_rank(from), parts(self + lacking_here, round->held - lacking_here));
  }
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
