// Rails: ranks with the same place on their hosts form a rail, and only they talk between hosts.
//
// Ranks are numbered host by host, `radix` of them on each. What a host has to tell others is first gathered or summed
// in parts at its ranks, one part for each rail, so all ranks of a host send at once, and nothing twice:
//
//   6 ranks, radix 3, an all-reduce:     host 0: 0 1 2       host 1: 3 4 5
//     1  within a host all send all the sums of their rails  (0 gets those of rail 0 from 1 and 2, ...)
//     2  along the rails all send the owner of a part theirs   0 - 3    1 - 4    2 - 5
//     3  along the rails the owners send the sums back         0 - 3    1 - 4    2 - 5
//     4  within a host all send all what they have
//
// A reduce-scatter is the first half of that, an all-gather the second. If the last host has fewer ranks, they serve
// the rails that have none there, too.
//
// Cost, S bytes over n ranks, r per host, H = n/r hosts:
//   all-reduce      4 steps    2(H-1)/H S leaves a host and reaches it, 2(r-1)/r S stays inside of each rank's sends
//   reduce-scatter  2 steps    (H-1)/H S                                scratch S/r
//   all-gather      2 steps    (H-1)/H S                                no scratch
// Right for hosts with several ranks behind one link each, which carries the least that is possible, and for few hosts,
// since each rank has a message for every other rank of its rail.
// Wrong for many hosts and short vectors; see hierarchical.cc and tree_of_chains.cc.
//
// The 2D algorithm of Barnett, Littlefield, Payne, van de Geijn: Global combine on mesh architectures with wormhole
// routing (1993), with direct exchanges in place of rings.

#include "algorithms/rails.h"

#include <algorithm>
#include <vector>

#include "algorithms/families.h"
#include "algorithms/partition.h"

namespace tutti::algorithms {

Plan rails_all_reduce(const Shape& shape) {
  PlanBuilder plan{shape};
  if (shape.ranks == 1) plan.copy(Parts{shape, Buffer::output}.all(), Parts{shape, Buffer::input}.all());
  rails::Exchanges<rails::ByRail> exchange{plan, shape};
  const auto piece = [&](Buffer buffer, int k) { return rails::Piece{buffer, k * shape.ranks, 1}; };
  // Each piece is a phase behind the one before it, so that links within and between hosts are busy at once.
  constexpr int phases = 4;
  const std::vector<rails::Range> served = exchange.served();
  for (int turn = 0; turn < shape.pipeline + phases - 1; ++turn) {
    const auto is_at = [&](int phase) { return turn >= phase && turn - phase < shape.pipeline; };
    const auto output = [&](int phase) { return piece(Buffer::output, turn - phase); };
    if (is_at(0)) exchange.sum_on_host(piece(Buffer::input, turn), [&](std::size_t i) { return output(0)(served[i]); });
    if (is_at(1)) {
      const rails::Piece have = exchange.is_alone_on_host() ? piece(Buffer::input, turn - 1) : output(1);
      exchange.sum_on_rails(have, output(1)(exchange.own_part()));
    }
    if (is_at(2)) exchange.gather_on_rails(output(2)(exchange.own_part()), output(2));
    if (is_at(3)) exchange.gather_on_host(output(3), output(3));
  }
  return std::move(plan).build();
}

Plan rails_reduce_scatter(const Shape& shape) {
  PlanBuilder plan{shape};
  const rails::Piece input{Buffer::input, 0, shape.pipeline};
  const Blocks own = rails::Piece{Buffer::output, 0, shape.pipeline}(shape.rank);
  rails::Exchanges<rails::ByRank> exchange{plan, shape};
  const std::vector<rails::Range> served = exchange.served();
  std::vector<Blocks> sums;
  for (const rails::Range& part : served)
    sums.push_back(exchange.is_alone_on_host() ? input(part) : plan.scratch(input(part)));
  exchange.sum_on_host(input, [&](std::size_t i) { return sums[i]; });
  const auto have = [&](int part) {
    const auto found = std::ranges::find(served, part, &rails::Range::first);
    return sums[static_cast<std::size_t>(found - served.begin())];
  };
  exchange.sum_on_rails(have, own);
  if (shape.ranks <= shape.radix) plan.copy(own, have(shape.rank));
  return std::move(plan).build();
}

Plan rails_all_gather(const Shape& shape) {
  PlanBuilder plan{shape};
  const rails::Piece output{Buffer::output, 0, shape.pipeline};
  const Blocks own = rails::Piece{Buffer::input, 0, shape.pipeline}(shape.rank);
  rails::Exchanges<rails::ByRank> exchange{plan, shape};
  exchange.gather_on_rails(own, output);
  exchange.gather_on_host([&](rails::Range parts) { return parts.first == shape.rank ? own : output(parts); }, output);
  plan.copy(output(shape.rank), own);
  return std::move(plan).build();
}

}  // namespace tutti::algorithms
