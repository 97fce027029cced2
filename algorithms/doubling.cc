// Doubling: in every round two groups of ranks exchange their whole sums, and the groups double.
//
//   8 ranks:   round 0   r <-> r^1        each pair has its sum
//              round 1   r <-> r^2        each group of four
//              round 2   r <-> r^4        all
//   6 ranks:   2 more than a power of two: ranks 0 and 2 first give their vector to 1 and 3, which stand for both;
//              1, 3, 4 and 5 run the rounds as 0 to 3; then 1 and 3 return the result to 0 and 2.
//
// Both partners put the lower group on the left, so that all ranks end with the same bits even if a sum depends on the
// order, as in floating point. The lower partner adds the received sum to its own; the upper one adds its own to the
// received sum. A round never writes where it reads, so a partner can send and receive at once.
//
// Cost per rank, S bytes over n ranks:  log2 n steps, two more if n is no power of two; S log2 n sent and reduced;
//                                       scratch up to 2 S
// Right for tiny messages: no algorithm has fewer steps, and a link serves both directions.
// Wrong from a few kilobytes on: all data travel log2 n times; circulant.cc moves 2 S in twice the steps.
//
// Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH (2005).

#include "algorithms/doubling.h"

#include <bit>
#include <utility>

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {

int Doubler::folded() const { return count - static_cast<int>(std::bit_floor(static_cast<unsigned>(count))); }

std::vector<int> Doubler::partners() const {
  if (gives()) return {};
  const int core_self = is_paired() ? self / 2 : self - folded();
  std::vector<int> found;
  if (is_paired()) found.push_back(self - 1);
  for (int distance = 1; distance < count - folded(); distance *= 2) {
    const int other = core_self ^ distance;
    found.push_back(other < folded() ? 2 * other + 1 : other + folded());
  }
  return found;
}

std::vector<Blocks> places_of_sum(PlanBuilder& plan, Blocks output, std::size_t steps) {
  std::vector<Blocks> found(steps, output);
  const bool odd = steps % 2 == 1;
  if (steps == 0) return found;
  const Blocks scratch = plan.scratch(output);
  for (std::size_t i = odd ? 1 : 0; i < steps; i += 2) found[i] = scratch;
  if (odd) found[0] = steps > 1 ? plan.scratch(output) : scratch;
  return found;
}

void double_sums(PlanBuilder& plan, const Doubler& doubler, Blocks sum, std::span<const Blocks> places, Blocks output) {
  if (doubler.gives()) {
    plan.send(doubler.rank_of(doubler.self + 1), sum);
    plan.recv(doubler.rank_of(doubler.self + 1), output);
    return;
  }
  const std::vector<int> others = doubler.partners();
  for (std::size_t i = 0; i < others.size(); ++i) {
    const int peer = doubler.rank_of(others[i]);
    const bool folding = doubler.is_paired() && i == 0;
    if (!folding) plan.send(peer, sum);
    if (others[i] > doubler.self && doubler.lands) {
      const Blocks landed = plan.scratch(places[i]);
      plan.recv(peer, landed);
      plan.reduce(places[i], sum, landed);
    } else if (others[i] > doubler.self) {
      plan.recv_reduce(peer, places[i], sum);
    } else {
      plan.recv(peer, places[i]);
      plan.reduce(places[i], places[i], sum);
    }
    sum = places[i];
  }
  plan.copy(output, sum);
  if (doubler.is_paired()) plan.send(doubler.rank_of(doubler.self - 1), output);
}

Plan doubling_all_reduce(const Shape& shape) {
  const Doubler doubler{shape.rank, shape.ranks};
  const Blocks output = Parts{shape, Buffer::output}.all();
  PlanBuilder plan{shape};
  const std::vector<Blocks> places = places_of_sum(plan, output, doubler.partners().size());
  double_sums(plan, doubler, Parts{shape, Buffer::input}.all(), places, output);
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
