#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tutti::detail {

/// Counts in elements of the caller's, each of which is `unit` elements of the wire, become counts of those.
inline std::vector<std::size_t> in_wire_elements(std::span<const std::size_t> counts, std::size_t unit) {
  std::vector<std::size_t> scaled{counts.begin(), counts.end()};
  for (std::size_t& count : scaled) count *= unit;
  return scaled;
}

}  // namespace tutti::detail
