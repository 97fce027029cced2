// Tree of chains: a double binary tree whose nodes are hosts, each of them a chain of its ranks.
//
// Ranks are numbered host by host, `radix` of them on each. Within a host sums move down the chain to its head, over
// fast links. Only heads communicate with other hosts, as in double_binary_tree.cc. In the first tree the head is a
// host's first rank, in the second its last, so each chain is used in both directions and each head belongs to one
// tree.
//
//   12 ranks, radix 3, first tree:      0 <- 1 <- 2                   second:    9 -> 10 -> 11
//                                       |                                                    |
//                                       6 <- 7 <- 8                              3 -> 4 -> 5
//                                      / .                                                / .
//             3 <- 4 <- 5    9 <- 10 <- 11                        0 -> 1 -> 2   6 -> 7 -> 8
//
// Cost per rank, S bytes over n ranks, g per host, h = log2(n/g), slices of s bytes:
//   all-reduce   about 2(g-1) + 2h + 2 S/s steps of s bytes, 2S sent, S reduced    no scratch
// Right for many hosts with several ranks each: log2 of the hosts in far steps, whatever happens inside.
// Wrong with one rank per host, where it is the same as double_binary_tree.cc, and for hosts with many ranks, since the
// chain is long.
//
// NCCL 2.4 uses it between and inside of hosts (Jeaugey, 2019).

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "algorithms/double_binary_tree.h"
#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {
namespace {

/// A rank's neighbours in one tree: one above, and below it those of its chain, then those of other hosts.
struct Neighbours {
  int parent = -1;
  std::vector<int> children;
};

Neighbours neighbours(const Shape& shape, bool second) {
  const int hosts = (shape.ranks + shape.radix - 1) / shape.radix;
  const int host = shape.rank / shape.radix;
  const auto first_of = [&](int h) { return h * shape.radix; };
  const auto last_of = [&](int h) { return std::min(shape.ranks, first_of(h + 1)) - 1; };
  const auto head_of = [&](int h) { return second ? last_of(h) : first_of(h); };
  const int away = second ? -1 : 1;  // along the chain
  const int tail = second ? first_of(host) : last_of(host);
  Neighbours found;
  if (shape.rank != tail) found.children.push_back(shape.rank + away);
  if (shape.rank != head_of(host)) {
    found.parent = shape.rank - away;
    return found;
  }
  const Branch branch = second ? second_tree(host, hosts) : first_tree(host, hosts);
  if (branch.parent >= 0) found.parent = head_of(branch.parent);
  for (const int child : {branch.left, branch.right})
    if (child >= 0) found.children.push_back(head_of(child));
  return found;
}

void reduce_half(PlanBuilder& plan, const Neighbours& near, Blocks sum, Blocks own) {
  for (const int child : near.children) {
    plan.recv_reduce(child, sum, own);
    own = sum;
  }
  if (near.parent >= 0) plan.send(near.parent, own);
}

void broadcast_half(PlanBuilder& plan, const Neighbours& near, Blocks half) {
  if (near.parent >= 0) plan.recv(near.parent, half);
  for (auto child = near.children.rbegin(); child != near.children.rend(); ++child) plan.send(*child, half);
}

}  // namespace

Plan tree_of_chains_all_reduce(const Shape& shape) {
  PlanBuilder plan{shape};
  const Parts input{shape, Buffer::input}, output{shape, Buffer::output};
  if (shape.ranks == 1) plan.copy(output.all(), input.all());
  const int first_half = (shape.ranks + 1) / 2;
  const auto half = [&](const Parts& parts, int k, int tree) {
    const Blocks slice = parts.slice(k);
    return tree == 0 ? Blocks{slice.buffer, slice.first, first_half}
                     : Blocks{slice.buffer, slice.first + first_half, slice.count - first_half};
  };
  const Neighbours near[] = {neighbours(shape, false), neighbours(shape, true)};
  // Up and down share links, which keep the order of issue: a slice goes down when it can be back from the top.
  const int hosts = (shape.ranks + shape.radix - 1) / shape.radix;
  const int way =
      2 * (static_cast<int>(std::bit_width(static_cast<unsigned>(hosts))) + std::min(shape.radix, shape.ranks) - 1);
  for (int k = 0; k < shape.pipeline + way; ++k)
    for (int tree = 0; tree < 2; ++tree) {
      if (k < shape.pipeline) reduce_half(plan, near[tree], half(output, k, tree), half(input, k, tree));
      if (k >= way) broadcast_half(plan, near[tree], half(output, k - way, tree));
    }
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
