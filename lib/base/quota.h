#pragma once

#include <string>

namespace tutti {

/// Whole cores by the quota of this process's cgroup (version 1 or 2) and of those above it, at least 1; 0: no quota. A
/// quota of 1.5 cores counts as 1: two ranks that spin would use it up and then stand still. `root` is prepended to
/// every path, for tests with their own files.
int quota_cores(const std::string& root = {});

}  // namespace tutti
