// Steps: what is known to k ranks is known to 2k a step later at best. Bytes: what must leave the root or reach it, or
// else what all ranks must send together, shared out evenly. Of a scan all of rank 0 must leave it and reach rank 1.

#include "algorithms/bounds.h"

#include <algorithm>
#include <bit>

#include "lib/base/collective_traits.h"

namespace tutti::algorithms {

Bounds lower_bounds(Collective collective, int ranks) {
  if (ranks < 2) return {};
  const int steps = static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
  const double others = static_cast<double>(ranks - 1) / ranks;
  const detail::CollectiveTraits& traits = detail::traits_of(collective);
  // Each sum of k ranks is made of k-1 additions; a scan has sums of all lengths, made one of the other.
  const int longest = traits.folded(ranks - 1, ranks);
  const double reduced = longest > 0 ? static_cast<double>(longest - 1) / ranks : 0;
  const auto parts_of = [&](detail::Extent extent) {
    return extent == detail::Extent::whole ? 1 : extent == detail::Extent::parts ? others : 1.0 / ranks;
  };
  if (collective == Collective::barrier) return {steps, 0, 0, 0};
  if (traits.is_rooted()) return {steps, parts_of(traits.input.extent), parts_of(traits.output.extent), reduced};
  const double moved = traits.is_scan() ? 1 : traits.has_parts() ? others : 2 * others;
  return {steps, moved, moved, reduced};
}

double bus_factor(Collective collective, int ranks) {
  const Bounds least = lower_bounds(collective, ranks);
  return std::max(least.sent, least.received);
}

}  // namespace tutti::algorithms
