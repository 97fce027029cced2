#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "algorithms/partition.h"
#include "algorithms/plan.h"

namespace tutti::algorithms {

inline constexpr int no_root = -1;

/// This rank's group, and the others.
struct Groups {
  explicit Groups(const Shape& shape, int root_ = no_root)
      : ranks(shape.ranks), size(shape.radix), root(root_), count((ranks + size - 1) / size), domains(shape.domains) {
    for (int rank = 0; rank < ranks && !domains.empty(); ++rank)
      if (std::cmp_equal(domains[static_cast<std::size_t>(rank)], leaders.size())) leaders.push_back(rank);
    if (!domains.empty()) count = static_cast<int>(leaders.size());
    self = group_of(shape.rank);
    if (root != no_root && !domains.empty()) leaders[static_cast<std::size_t>(group_of(root))] = root;
  }

  int group_of(int rank) const { return domains.empty() ? rank / size : domains[static_cast<std::size_t>(rank)]; }
  int leader() const { return leader_of(self); }
  int leader_of(int group) const {
    if (!domains.empty()) return leaders[static_cast<std::size_t>(group)];
    return root != no_root && group == group_of(root) ? root : group * size;
  }
  /// The ranks of this rank's group, its leader included, are among those from `first()` up to `end()`.
  int first() const { return domains.empty() ? self * size : 0; }
  int end() const { return domains.empty() ? end_of(self) : ranks; }
  bool is_member(int rank) const { return rank != leader() && group_of(rank) == self; }
  int end_of(int group) const { return std::min((group + 1) * size, ranks); }
  bool has_members() const { return has_members(self); }
  bool has_members(int group) const {
    return domains.empty() ? size_of(group) > 1 : std::count(domains.begin(), domains.end(), group) > 1;
  }
  int size_of(int group) const { return end_of(group) - group * size; }
  /// The parts of `number` groups from `first` on, around the circle.
  Blocks parts(const Parts& of, int first, int number) const {
    int held = 0;
    for (int i = 0; i < number; ++i) held += size_of((first + i) % count);
    return of.range(leader_of(first % count), held);
  }

  int ranks, size, root, count, self = 0;
  std::span<const int> domains;
  std::vector<int> leaders;  ///< of domains
};

void for_members(const Groups& groups, auto act) {
  for (int rank = groups.first(); rank < groups.end(); ++rank)
    if (groups.is_member(rank)) act(rank);
}

/// The sum of the leader's and its members' data, in `sum` if the leader has members, else in `own`.
inline Blocks sum_group(PlanBuilder& plan, const Groups& groups, Blocks own, Blocks sum) {
  Blocks so_far = own;
  for_members(groups, [&](int rank) {
    plan.recv_reduce(rank, sum, so_far);
    so_far = sum;
  });
  return so_far;
}

}  // namespace tutti::algorithms
