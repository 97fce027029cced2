#pragma once

#include <string>

namespace tutti {

/// Whole cores by the quota of this process's cgroup (version 1 or 2) and of those above it, at least 1; 0: no quota.
/// Of 1.5 cores that is 1: two ranks that spin would use up the quota and then stand still. `root` is put before every
/// path that is read: tests have files of their own.
int quota_cores(const std::string& root = {});

}  // namespace tutti
