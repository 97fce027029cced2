#include "cli/simulate/network.h"

#include <cmath>

namespace tutti::cli::simulate {

std::string_view name_of(Distance distance) {
  constexpr std::string_view names[] = {"socket", "host", "leaf", "far"};
  return names[static_cast<std::size_t>(distance)];
}

Distance Network::distance(int a, int b) const {
  if (a / socket == b / socket) return Distance::socket;
  if (a / host == b / host) return Distance::host;
  return a / leaf == b / leaf ? Distance::leaf : Distance::far;
}

MessageCost Network::cost(Distance distance, std::size_t bytes) const {
  const std::vector<Tier>& tiers = links[static_cast<std::size_t>(distance)];
  const Tier* found = &tiers.front();
  for (const Tier& tier : tiers)
    if (tier.from <= bytes) found = &tier;
  return {found->latency, found->gap, std::round(found->per_byte * static_cast<double>(bytes))};
}

double Network::reduction(std::size_t bytes) const { return std::round(reduce_per_byte * static_cast<double>(bytes)); }

double Network::copying(std::size_t bytes) const { return std::round(copy_per_byte * static_cast<double>(bytes)); }

}  // namespace tutti::cli::simulate
