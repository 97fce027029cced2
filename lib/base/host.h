#pragma once

#include <span>
#include <string>

namespace tutti {

/// Cores this process may use: the smaller of its affinity mask and its cgroup's quota, at least 1.
int available_cores();

/// The cores that its affinity mask allows, as one '0' or '1' per core from core 0 on.
std::string allowed_cores();

/// The number of cores of several processes together, with the masks `allowed`: each may be bound to one of its own, or
/// all share `quota` (0: none). At least 1.
int cores_together(std::span<const std::string> allowed, int quota);

/// This host's name; "localhost" if it has none.
std::string host_name();

}  // namespace tutti
