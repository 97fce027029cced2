#pragma once

#include <utility>
#include <vector>

#include "algorithms/partition.h"

namespace tutti::algorithms {

/// The rounds in which a circle of `ranks` halves the parts that each rank holds, rounding up, from `held` parts to
/// `kept`.
struct Halving {
  int held;
  int kept;
  int moved() const { return held - kept; }
};
inline std::vector<Halving> halvings(int ranks) {
  std::vector<Halving> rounds;
  for (int held = ranks; held > 1; held = rounds.back().kept) rounds.push_back({held, (held + 1) / 2});
  return rounds;
}

/// The all-gather's rounds, backwards: `plan` sends and receives for the members of `ring`, whose ranks are
/// rank_of(member). parts(first, count) says where the parts of `count` members are, around the circle.
void gather_around(PlanBuilder& plan, const Ring& ring, auto rank_of, auto parts) {
  const std::vector<Halving> rounds = halvings(ring.ranks);
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    plan.send(rank_of(ring.behind(round->kept)), parts(ring.rank, round->moved()));
    plan.recv(rank_of(ring.ahead(round->kept)), parts(ring.rank + round->kept, round->moved()));
  }
}

}  // namespace tutti::algorithms
