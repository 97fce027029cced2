// Steps: data known to k ranks are known to at most 2k ranks a step later. Bytes: those that must leave the root or
// reach it; without a root, those that all ranks must send together, divided evenly. In a scan all data of rank 0 must
// leave it and reach rank 1.

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
  // A sum of k ranks takes k-1 additions; a scan has sums of all lengths, each made from the one before.
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
