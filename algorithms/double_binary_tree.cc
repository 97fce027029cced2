// Double binary tree: two binary trees over the same ranks, half of the vector through each.
//
// In one binary tree half of the ranks are leaves, which receive but never send. The second tree swaps the roles: it is
// the first one reflected (even number of ranks) or shifted by one (odd), so that its leaves are the inner ranks of the
// first.
//
//   6 ranks,  first:    0          second:   5
//                       |                    |
//                       4                    1
//                      / .                  / .
//                     2   5                0   3
//                    / .                      / .
//                   1   3                    2   4
//
//   all-reduce: every slice is cut in two halves. Each half is summed up its tree and sent down again. Slices follow
//   each other: while one goes down, later ones still go up. For broadcast and reduce both trees span all ranks but the
//   root, and the root is above both.
//
// Cost per rank, S bytes over n ranks, h = log2 n, slices of s bytes:
//   all-reduce          about 2h + 2 S/s steps of s bytes,  2S sent, S reduced    no scratch
//   broadcast, reduce   about  h +   S/s steps of s bytes,   S sent               reduce: scratch up to S
// Right when n is large: few steps and yet nearly all of the bandwidth. It wants a pipeline: h slices or more.
// Wrong when n is small and S huge: ring.cc has no ramp-up; or where a rank can only afford few connections.
//
// Sanders, Speck, Traeff: Two-tree algorithms for full bandwidth broadcast, reduction and scan (2009). The numbering is
// that of NCCL 2.4.

#include "algorithms/double_binary_tree.h"

#include <array>
#include <bit>
#include <utility>

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {
namespace {

void reduce_half(PlanBuilder& plan, const Branch& branch, Blocks sum, Blocks own) {
  for (const int child : {branch.left, branch.right})
    if (child >= 0) {
      plan.recv_reduce(child, sum, own);
      own = sum;
    }
  if (branch.parent >= 0) plan.send(branch.parent, own);
}

void broadcast_half(PlanBuilder& plan, const Branch& branch, Blocks half) {
  if (branch.parent >= 0) plan.recv(branch.parent, half);
  for (const int child : {branch.left, branch.right})
    if (child >= 0) plan.send(child, half);
}

/// Slice k, one half for each tree.
std::array<Blocks, 2> halves(const Shape& shape, Buffer buffer, int k) {
  const Blocks slice = Parts{shape, buffer}.slice(k);
  const int half = (slice.count + 1) / 2;
  return {Blocks{buffer, slice.first, half}, Blocks{buffer, slice.first + half, slice.count - half}};
}

/// Both trees over all ranks but the root, whose only child in each is the tree's top.
std::array<Branch, 2> below_root(const Shape& shape) {
  const Rotated rotated{shape.root, shape.ranks};
  const int others = shape.ranks - 1;
  const auto real = [&](int other) { return rotated.to_rank(other + 1); };
  if (shape.rank == shape.root) return {Branch{-1, real(0), -1}, Branch{-1, real(top_of_second_tree(others)), -1}};
  const auto hung = [&](const Branch& branch) {
    Branch found = branch.renumbered(real);
    if (found.parent < 0) found.parent = shape.root;
    return found;
  };
  const int other = rotated.to_virtual(shape.rank) - 1;
  return {hung(first_tree(other, others)), hung(second_tree(other, others))};
}

}  // namespace

Plan double_binary_tree_all_reduce(const Shape& shape) {
  const std::array trees{first_tree(shape.rank, shape.ranks), second_tree(shape.rank, shape.ranks)};
  PlanBuilder plan{shape};
  if (shape.ranks == 1) plan.copy(Parts{shape, Buffer::output}.all(), Parts{shape, Buffer::input}.all());
  // The way up in one tree may share a link with the way down in the other, and a link keeps the order of issue. So a
  // slice goes down when it can be back from the top, and not as early as the next one may go up.
  const int way = 2 * static_cast<int>(std::bit_width(static_cast<unsigned>(shape.ranks)));
  for (int k = 0; k < shape.pipeline + way; ++k)
    for (std::size_t t = 0; t < 2; ++t) {
      if (k < shape.pipeline)
        reduce_half(plan, trees[t], halves(shape, Buffer::output, k)[t], halves(shape, Buffer::input, k)[t]);
      if (k >= way) broadcast_half(plan, trees[t], halves(shape, Buffer::output, k - way)[t]);
    }
  return std::move(plan).build();
}

Plan double_binary_tree_broadcast(const Shape& shape) {
  PlanBuilder plan{shape};
  if (shape.ranks == 1) return std::move(plan).build();
  const std::array trees = below_root(shape);
  for (int k = 0; k < shape.pipeline; ++k)
    for (std::size_t t = 0; t < 2; ++t) broadcast_half(plan, trees[t], halves(shape, Buffer::output, k)[t]);
  return std::move(plan).build();
}

Plan double_binary_tree_reduce(const Shape& shape) {
  PlanBuilder plan{shape};
  if (shape.ranks == 1) {
    plan.copy(Parts{shape, Buffer::output}.all(), Parts{shape, Buffer::input}.all());
    return std::move(plan).build();
  }
  const std::array trees = below_root(shape);
  for (int k = 0; k < shape.pipeline; ++k)
    for (std::size_t t = 0; t < 2; ++t) {
      const Blocks own = halves(shape, Buffer::input, k)[t];
      const bool is_leaf = trees[t].left < 0;
      const Blocks sum = shape.rank == shape.root ? as(Buffer::output, own) : is_leaf ? own : plan.scratch(own);
      reduce_half(plan, trees[t], sum, own);
    }
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
