#pragma once

#include <span>
#include <string>

namespace tutti {

/// Cores this process may use: the smaller of its affinity mask and its cgroup's quota, at least 1.
int available_cores();

/// Those that its affinity mask allows, as one '0' or '1' per core from core 0 on.
std::string allowed_cores();

/// How many cores processes have together, whose masks are `allowed`: each may be bound to one of its own, or all share
/// `quota`, 0: none. At least 1.
int cores_together(std::span<const std::string> allowed, int quota);

/// This host's name as people know it; "localhost" where it has none.
std::string host_name();

}  // namespace tutti
