// A cgroup's quota is in a file of its folder, below the place where its hierarchy is mounted. mountinfo says which
// part of the hierarchy is mounted there:
//
//   31 23 0:28 /docker/4f1 /sys/fs/cgroup/cpu ro,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
//              ^ its root  ^ mounted here                            ^ version 1   ^ of these controllers
//
// and /proc/self/cgroup has the place of this process in the hierarchy: "4:cpu,cpuacct:/docker/4f1", in version 2
// "0::/a/b". In a container with the host's cgroup namespace that path may not exist; then the root is the container's
// own cgroup.

#include "lib/base/quota.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace tutti {
namespace {

struct Hierarchy {
  bool old = false;     // version 1
  std::string root;     // of the hierarchy that is mounted
  std::string mounted;  // the mount point
};

/// True when the comma-separated `list` has "cpu", which is not "cpuset" or "cpuacct".
bool has_cpu(const std::string& list) {
  std::istringstream words{list};
  for (std::string word; std::getline(words, word, ',');)
    if (word == "cpu") return true;
  return false;
}

std::vector<Hierarchy> hierarchies(const std::string& root) {
  std::vector<Hierarchy> found;
  std::ifstream mounts{root + "/proc/self/mountinfo"};
  for (std::string line; std::getline(mounts, line);) {
    const std::size_t dash = line.find(" - cgroup");
    if (dash == std::string::npos) continue;
    std::istringstream before{line.substr(0, dash)}, after{line.substr(dash + 3)};
    Hierarchy one;
    std::string skipped, type, options;
    before >> skipped >> skipped >> skipped >> one.root >> one.mounted;
    after >> type >> skipped >> options;
    one.old = type == "cgroup";
    if (!one.old || has_cpu(options)) found.push_back(one);
  }
  return found;
}

/// This process's path in the hierarchy of version 2, or in that of version 1 with the controller "cpu".
std::string path_of_this_process(const std::string& root, bool old) {
  std::ifstream membership{root + "/proc/self/cgroup"};
  for (std::string line; std::getline(membership, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (old ? has_cpu(controllers) : line.starts_with("0::")) return line.substr(second + 1);
  }
  return "/";
}

/// Version 2: "max 100000" or "150000 100000"; version 1: a file for each of the two, -1 for none.
std::optional<double> quota_of(const std::string& folder, bool old) {
  double quota = 0;
  double period = 0;
  if (old) {
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
  for (const Hierarchy& one : hierarchies(root)) {
    std::string path = path_of_this_process(root, one.old);
    if (one.root != "/" && path.starts_with(one.root)) path.erase(0, one.root.size());
    // Every ancestor up to the mount point may have a limit, too.
    for (bool more = true; more; path = path.substr(0, path.rfind('/'))) {
      if (path == "/") path.clear();
      more = !path.empty();
      if (const auto quota = quota_of(root + one.mounted + path, one.old))
        least = std::min(least.value_or(*quota), *quota);
    }
  }
  return least ? std::max(1, static_cast<int>(*least)) : 0;
}

}  // namespace tutti
