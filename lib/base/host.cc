#include "lib/base/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>

namespace tutti {

/// Of version 2: "max 100000" or "150000 100000".
int quota_cores() {
  std::ifstream own{"/proc/self/cgroup"};
  std::string line;
  std::string path;
  while (std::getline(own, line))
    if (line.rfind("0::", 0) == 0) path = line.substr(3);
  int fewest = 0;
  // Every ancestor may limit as well.
  for (; !path.empty(); path = path.substr(0, path.rfind('/'))) {
    std::ifstream file{"/sys/fs/cgroup" + (path == "/" ? "" : path) + "/cpu.max"};
    double quota = 0;
    double period = 0;
    if (!(file >> quota >> period) || period <= 0) continue;
    const int cores = std::max(1, static_cast<int>(quota / period + 0.5));
    fewest = fewest == 0 ? cores : std::min(fewest, cores);
  }
  return fewest;
}

int available_cores() {
  cpu_set_t allowed;
  int cores = 1;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) cores = std::max(1, CPU_COUNT(&allowed));
  const int quota = quota_cores();
  return quota > 0 ? std::min(cores, quota) : cores;
}

std::string allowed_cores() {
  cpu_set_t allowed;
  std::string mask;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return mask;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) mask += CPU_ISSET(core, &allowed) ? '1' : '0';
  return mask.substr(0, mask.rfind('1') + 1);
}

int cores_together(std::span<const std::string> allowed, int quota) {
  std::string all;
  for (const std::string& cores : allowed) {
    if (all.size() < cores.size()) all.resize(cores.size(), '0');
    for (std::size_t core = 0; core < cores.size(); ++core)
      if (cores[core] == '1') all[core] = '1';
  }
  const int count = std::max(1, static_cast<int>(std::ranges::count(all, '1')));
  return quota > 0 ? std::min(quota, count) : count;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

}  // namespace tutti
