// Doubling: in every round two groups of ranks exchange their sums, and the groups double.
//
//   8 ranks:   round 0   r <-> r^1      the upper rank of a pair learns the sum before it
//              round 1   r <-> r^2      the upper two of four do
//              round 2   r  -> r^4      the upper four do
//
// A rank keeps two sums: that of its group, which it sends, and that of the ranks before it (and itself, of a scan), to
// which only lower groups add, on the left. Groups need not be complete, since missing ranks come after all others.
// A lower group receives the upper one's sum only if the sum of both is sent once more.
//
// Cost per rank, S bytes over n ranks: log2 n steps rounded up; at most S log2 n sent, 2 S log2 n reduced;
//                                      scratch up to 5 S
// Right for small vectors if connections are expensive: log2 n neighbours, half as many as scan_circulant.cc, each used
// in both directions. Otherwise wrong: it reduces twice as much as scan_circulant.cc, and all data travel log2 n times.
//
// Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH (2005).

#include <bit>
#include <utility>
#include <vector>

#include "algorithms/doubling.h"
#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {
namespace {

/// Whether any rank uses the group sum of `rank` after the round with that distance.
bool is_sent_later(int rank, int distance, int ranks) {
  for (int next = 2 * distance; next < ranks; next *= 2) {
    const int peer = rank ^ next;
    if (peer < ranks && (peer > rank || is_sent_later(peer, next, ranks))) return true;
  }
  return false;
}

Plan doubling(const Shape& shape, bool inclusive) {
  const Blocks output = Parts{shape, Buffer::output}.all(), own = Parts{shape, Buffer::input}.all();
  PlanBuilder plan{shape};
  const auto lower_groups = static_cast<std::size_t>(std::popcount(static_cast<unsigned>(shape.rank)));
  const std::vector<Blocks> places = places_of_sum(plan, output, lower_groups);
  std::vector<Blocks> group_places;  // two of them, used in turn
  std::size_t groups = 0, sums = 0;
  Blocks group = own, sum = own;
  for (int distance = 1; distance < shape.ranks; distance *= 2) {
    const int peer = shape.rank ^ distance;
    if (peer >= shape.ranks) continue;
    const bool is_upper = peer < shape.rank;
    const bool goes_on = is_sent_later(shape.rank, distance, shape.ranks);
    if (goes_on && groups < 2) group_places.push_back(plan.scratch(own));
    if (!is_upper || is_sent_later(peer, distance, shape.ranks)) plan.send(peer, group);
    if (is_upper) {
      const Blocks more = places[sums++];
      plan.recv(peer, more);
      if (goes_on) plan.reduce(group_places[groups % 2], more, group);
      if (inclusive || sums > 1) plan.reduce(more, more, sum);
      sum = more;
    } else if (goes_on) {
      plan.recv_reduce(peer, group_places[groups % 2], group);
    }
    if (goes_on) group = group_places[groups++ % 2];
  }
  if (inclusive || shape.rank > 0) plan.copy(output, sum);
  return std::move(plan).build();
}

}  // namespace

Plan doubling_scan(const Shape& shape) { return doubling(shape, true); }
Plan doubling_exclusive_scan(const Shape& shape) { return doubling(shape, false); }

}  // namespace tutti::algorithms
