// Doubling: in every round two groups of ranks exchange their whole sums, and the groups double.
//
//   8 ranks:   round 0   r <-> r^1        each pair has its sum
//              round 1   r <-> r^2        each group of four
//              round 2   r <-> r^4        all
//   6 ranks:   2 more than a power of two: ranks 0 and 2 first give their vector to 1 and 3, who stand for both; 1, 3,
//   4
//              and 5 run the rounds as 0 to 3; then 1 and 3 return the result to 0 and 2.
//
// Both partners put the lower group on the left, so that all ranks end with the same bits though a sum's order matters
// in floating point: the lower one adds what comes in to its own, the upper one adds its own to what came in.
// Every round writes somewhere else than it reads: a partner can send and receive at once.
//
// Cost per rank, S bytes over n ranks:  log2 n steps, two more if n is no power of two; S log2 n sent and reduced;
//                                       scratch up to 2 S
// Right for tiny messages: no algorithm has fewer steps, and a link serves both directions.
// Wrong from a few kilobytes on: everything travels log2 n times; circulant.cc moves 2 S in twice the steps.
//
// Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH (2005).

#include <bit>
#include <utility>
#include <vector>

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {
namespace {

/// Whose sum comes in, in order: the partner who folds into us, then one per round.
std::vector<int> partners(int rank, int ranks) {
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  const int folded = ranks - core;  // pairs (0,1), (2,3) ... of which the odd one stands for both
  const bool stands_for_two = rank < 2 * folded;
  const int self = stands_for_two ? rank / 2 : rank - folded;
  std::vector<int> found;
  if (stands_for_two) found.push_back(rank - 1);
  for (int distance = 1; distance < core; distance *= 2) {
    const int other = self ^ distance;
    found.push_back(other < folded ? 2 * other + 1 : other + folded);
  }
  return found;
}

/// Where the sum lives after each exchange: never where it was, never in output first (that may be the input), in
/// output last. A single exchange cannot have all three.
std::vector<Blocks> places(PlanBuilder& plan, Blocks output, std::size_t exchanges) {
  std::vector<Blocks> found(exchanges, output);
  const bool odd = exchanges % 2 == 1;
  if (exchanges == 0) return found;
  const Blocks scratch = exchanges > 1 || odd ? plan.scratch(output) : Blocks{};
  for (std::size_t i = odd ? 1 : 0; i < exchanges; i += 2) found[i] = scratch;
  if (odd) found[0] = exchanges > 1 ? plan.scratch(output) : scratch;
  return found;
}

}  // namespace

Plan doubling_all_reduce(const Shape& shape) {
  const int folded = shape.ranks - static_cast<int>(std::bit_floor(static_cast<unsigned>(shape.ranks)));
  const bool is_paired = shape.rank < 2 * folded;
  const Blocks output = Parts{shape, Buffer::output}.all();
  Blocks sum = Parts{shape, Buffer::input}.all();
  PlanBuilder plan{shape};
  if (is_paired && shape.rank % 2 == 0) {
    plan.send(shape.rank + 1, sum);
    plan.recv(shape.rank + 1, output);
    return std::move(plan).build();
  }
  const std::vector<int> others = partners(shape.rank, shape.ranks);
  const std::vector<Blocks> place = places(plan, output, others.size());
  for (std::size_t i = 0; i < others.size(); ++i) {
    const bool folding = is_paired && i == 0;
    if (!folding) plan.send(others[i], sum);
    if (others[i] > shape.rank) {
      plan.recv_reduce(others[i], place[i], sum);
    } else {
      plan.recv(others[i], place[i]);
      plan.reduce(place[i], place[i], sum);
    }
    sum = place[i];
  }
  plan.copy(output, sum);
  if (is_paired) plan.send(shape.rank - 1, output);
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
