#include "lib/base/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "lib/base/quota.h"

namespace tutti {

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
