// Bruck: few messages with many small parts each, packed together, for any number of ranks.
//
//   all-to-all, rank r: slot i begins with the part for rank r+i, which is i places away. In the round of distance d
//   all slots whose i contains the bit d go d places ahead, and those from d behind take their place. So a part
//   travels by the bits of its distance. In the end slot i holds the part that rank r-i had for this rank.
//     6 ranks:    d = 1   slots 1 3 5        d = 2   slots 2 3        d = 4   slots 4 5
//   all-gather, rank r: slot i is for the part of rank r+i. In the round of distance d the first d slots (fewer in the
//   last round) go d behind, and those from d ahead become the next ones.
//     6 ranks:    d = 1   slot 0 -> 1        d = 2   0 1 -> 2 3       d = 4   0 1 -> 4 5
//
// Cost per rank, S bytes over n ranks (all-to-all: to send; all-gather: of the result):
//   all-to-all   log2 n messages   about S/2 log2 n sent, and as much packed     scratch S/2 + S/2 log2 n
//   all-gather   log2 n messages   (n-1)/n S sent, and S copied at the end       scratch S
// Right for tiny parts (bytes), where only the number of messages counts.
// Wrong from about a kilobyte per part: pairwise.cc sends everything once; circulant.cc gathers without copies.
//
// Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications (1997).

#include <algorithm>
#include <utility>
#include <vector>

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {
namespace {

std::vector<int> slots_with_bit(int bit, int ranks) {
  std::vector<int> found;
  for (int slot = bit; slot < ranks; ++slot)
    if ((slot & bit) != 0) found.push_back(slot);
  return found;
}

}  // namespace

Plan bruck_all_to_all(const Shape& shape) {
  const Ring ring{shape.rank, shape.ranks};
  const Parts input{shape, Buffer::input}, output{shape, Buffer::output};
  PlanBuilder plan{shape, InPlace::never};
  const auto nth = [&](Blocks parts, int n) {
    return Blocks{parts.buffer, parts.first + n * shape.pipeline, shape.pipeline};
  };
  std::vector<Blocks> slot;  // current place of the part in each slot
  for (int i = 0; i < ring.ranks; ++i) slot.push_back(input[ring.ahead(i)]);

  const Blocks pack = plan.scratch(input.range(0, ring.ranks / 2));
  for (int distance = 1; distance < ring.ranks; distance *= 2) {
    const std::vector<int> moved = slots_with_bit(distance, ring.ranks);
    const int count = static_cast<int>(moved.size());
    const Blocks arrived = plan.scratch(input.range(0, count));
    for (int n = 0; n < count; ++n) {
      Blocks& part = slot[static_cast<std::size_t>(moved[static_cast<std::size_t>(n)])];
      plan.copy(nth(pack, n), part);
      part = nth(arrived, n);
    }
    plan.send(ring.ahead(distance), {pack.buffer, pack.first, count * shape.pipeline});
    plan.recv(ring.behind(distance), arrived);
  }
  for (int i = 0; i < ring.ranks; ++i) plan.copy(output[ring.behind(i)], slot[static_cast<std::size_t>(i)]);
  return std::move(plan).build();
}

Plan bruck_all_gather(const Shape& shape) {
  const Ring ring{shape.rank, shape.ranks};
  const Blocks own = Parts{shape, Buffer::input}[ring.rank];
  const Blocks all = Parts{shape, Buffer::output}.range(ring.rank, ring.ranks);
  PlanBuilder plan{shape};
  const Blocks slots = plan.scratch(all);
  const auto range = [&](int first, int count) {
    return Blocks{slots.buffer, slots.first + first * shape.pipeline, count * shape.pipeline};
  };
  plan.copy(range(0, 1), own);
  for (int distance = 1; distance < ring.ranks; distance *= 2) {
    const int count = std::min(distance, ring.ranks - distance);
    plan.send(ring.behind(distance), range(0, count));
    plan.recv(ring.ahead(distance), range(distance, count));
  }
  plan.copy(all, slots);
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
