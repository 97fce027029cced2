// Circulant: every rank sends a sum of the ranks just before it to the rank a distance ahead, and distances double.
//
//   scan: rank r holds the sum of the last d ranks up to itself, receives the sum of the d ranks before these, and
//   combines the two.
//        d = 1    r-1, r                     d = 2    r-3 .. r              d = 4    r-7 .. r
//   exclusive scan: the distances are 1, 2, 3, 6, 12 ... In the second round a rank sends the sum of two, its own data
//   among them; from then on it sends what it holds, which ends before itself.
//        d = 1    r-1                        d = 2    r-3 .. r-1            d = 3    r-6 .. r-1
//   A rank whose sum reaches back to rank 0 goes on sending, but no longer receives.
//
// A round does not receive into memory from which it sends, so that a rank can do both at once.
//
// Cost per rank, S bytes over n ranks: log2 n steps, or log2(4/3 (n-1)) of an exclusive scan, rounded up; as many times
//                                      S sent and reduced; scratch 2 S, or 3 S
// Right for small vectors and any number of ranks: the fewest steps, or one more.
// Wrong for large ones: everything travels log2 n times; see scan_direct.cc for few ranks and scan_chain.cc.
//
// Hillis, Steele: Data parallel algorithms (1986).
// Traeff: Two efficient message-passing exclusive scan algorithms (2026).

#include <utility>
#include <vector>

#include "algorithms/doubling.h"
#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {
namespace {

/// The distances of an exclusive scan: until the sums reach back to rank 0.
std::vector<int> exclusive_distances(int ranks) {
  std::vector<int> found;
  for (int distance = 1; distance < 3 ? distance < ranks : distance + 1 < ranks;
       distance = distance < 3 ? distance + 1 : 2 * distance)
    found.push_back(distance);
  return found;
}

}  // namespace

Plan circulant_scan(const Shape& shape) {
  const Blocks output = Parts{shape, Buffer::output}.all();
  PlanBuilder plan{shape};
  std::size_t rounds = 0;
  for (int distance = 1; distance <= shape.rank; distance *= 2) ++rounds;
  const std::vector<Blocks> places = places_of_sum(plan, output, rounds);
  Blocks sum = Parts{shape, Buffer::input}.all();
  std::size_t round = 0;
  for (int distance = 1; distance < shape.ranks; distance *= 2) {
    if (shape.rank + distance < shape.ranks) plan.send(shape.rank + distance, sum);
    if (shape.rank < distance) continue;
    const Blocks more = places[round++];
    plan.recv(shape.rank - distance, more);
    plan.reduce(more, more, sum);
    sum = more;
  }
  plan.copy(output, sum);
  return std::move(plan).build();
}

Plan circulant_exclusive_scan(const Shape& shape) {
  const Blocks output = Parts{shape, Buffer::output}.all(), own = Parts{shape, Buffer::input}.all();
  const std::vector<int> distances = exclusive_distances(shape.ranks);
  const auto first_to_send = [](int distance) { return distance < 3 ? 0 : 1; };
  PlanBuilder plan{shape};
  std::size_t rounds = 0;
  for (const int distance : distances) rounds += shape.rank - distance >= first_to_send(distance) ? 1U : 0U;
  const std::vector<Blocks> places = places_of_sum(plan, output, rounds);
  std::size_t round = 0;
  Blocks before = own;  // sum of the ranks just before; rank 0 has none
  for (const int distance : distances) {
    const int to = shape.rank + distance, from = shape.rank - distance;
    if (to < shape.ranks && shape.rank >= first_to_send(distance)) {
      Blocks sent = distance < 3 ? own : before;
      if (distance == 2 && shape.rank > 0) {
        sent = plan.scratch(own);
        plan.reduce(sent, before, own);
      }
      plan.send(to, sent);
    }
    if (from < first_to_send(distance)) continue;
    const Blocks more = places[round++];
    plan.recv(from, more);
    if (round > 1) plan.reduce(more, more, before);
    before = more;
  }
  if (shape.rank > 0) plan.copy(output, before);
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
