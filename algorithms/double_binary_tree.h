#pragma once

#include <bit>

namespace tutti::algorithms {

/// A rank's neighbours in a binary tree; -1 if there is none.
struct Branch {
  int parent = -1;
  int left = -1;
  int right = -1;

  template <class Renumber>
  constexpr Branch renumbered(Renumber renumber) const {
    const auto one = [&](int rank) { return rank < 0 ? -1 : renumber(rank); };
    return {one(parent), one(left), one(right)};
  }
  friend constexpr bool operator==(const Branch&, const Branch&) = default;
};

/// A binary tree over ranks 0 .. ranks-1. The lowest set bit of a rank is its height: rank 0 is on top with one child,
/// odd ranks are the leaves. If a neighbour would lie beyond the last rank, the next smaller subtree takes its place.
constexpr Branch first_tree(int rank, int ranks) {
  if (ranks == 1) return {};
  if (rank == 0) return {-1, static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks - 1))), -1};
  const int height = rank & -rank;
  const int beyond = (rank ^ height) | (2 * height);
  Branch found{beyond < ranks ? beyond : rank ^ height, -1, -1};
  if (height == 1) return found;
  found.left = rank - height / 2;
  int step = height / 2;
  while (step > 0 && rank + step >= ranks) step /= 2;
  if (step > 0) found.right = rank + step;
  return found;
}

/// The same tree reflected, or shifted by one if the number of ranks is odd: its leaves are the inner ranks of the
/// first. No rank has more than two children in both together (with an odd number rank 0 has one in each).
constexpr Branch second_tree(int rank, int ranks) {
  if (ranks % 2 == 0) {
    const auto mirror = [=](int r) { return ranks - 1 - r; };
    return first_tree(mirror(rank), ranks).renumbered(mirror);
  }
  return first_tree((rank + ranks - 1) % ranks, ranks).renumbered([=](int r) { return (r + 1) % ranks; });
}
constexpr int top_of_second_tree(int ranks) { return ranks % 2 == 0 ? ranks - 1 : 1 % ranks; }

static_assert(first_tree(4, 6) == Branch{0, 2, 5} && second_tree(1, 6) == Branch{5, 3, 0});
static_assert(second_tree(1, 5).parent == -1 && second_tree(0, 5).parent == 1);

}  // namespace tutti::algorithms
