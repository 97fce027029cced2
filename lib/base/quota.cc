#include "lib/base/quota.h"

#include <algorithm>
#include <fstream>
#include <optional>

#include "lib/base/control_groups.h"

namespace tutti {
namespace {

/// Version 2: "max 100000" or "150000 100000"; version 1: a file for each of the two, -1 for none.
std::optional<double> quota_of(const std::string& folder, bool is_version_1) {
  double quota = 0;
  double period = 0;
  if (is_version_1) {
    std::ifstream{folder + "/cpu.cfs_quota_us"} >> quota;
    std::ifstream{folder + "/cpu.cfs_period_us"} >> period;
  } else if (!(std::ifstream{folder + "/cpu.max"} >> quota >> period)) {
    return std::nullopt;
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

}  // namespace

int quota_cores(const std::string& root) {
  std::optional<double> least;
  for (const ControlGroup& group : control_groups("cpu", root))
    if (const auto quota = quota_of(root + group.folder, group.is_version_1))
      least = std::min(least.value_or(*quota), *quota);
  return least ? std::max(1, static_cast<int>(*least)) : 0;
}

}  // namespace tutti
