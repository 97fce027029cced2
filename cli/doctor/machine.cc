#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <set>
#include <string>

#include "cli/doctor/doctor.h"
#include "lib/api/settings.h"
#include "lib/base/environment.h"
#include "lib/base/host.h"
#include "lib/base/topology.h"
#include "lib/compute/kernels.h"

namespace tutti::cli {
namespace {

std::string first_word_of(const std::string& path) {
  std::string word;
  std::ifstream{path} >> word;
  return word;
}

Finding cores(int ranks) {
  cpu_set_t mask;
  const int allowed = ::sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 0;
  const int available = available_cores();
  Finding finding{.what = "cores", .found = {}, .remedy = {}};
  finding.found = fmt::format("{} available ({} in the affinity mask, {})", available, allowed,
                              available < allowed ? "fewer by the quota of the cgroup" : "no tighter cgroup quota");
  if (ranks == 0) return finding;
  finding.found += fmt::format("; {} ranks make {:.2f} per core", ranks, static_cast<double>(ranks) / available);
  if (ranks > available) {
    finding.level = Level::warn;
    finding.remedy =
        fmt::format("ranks take turns on a core and wait asleep; start at most {} here for low latency", available);
  }
  return finding;
}

/// "2 (0-3, 4-7)"
std::string counted(const std::set<std::string>& names) {
  return names.contains("") ? "unknown" : fmt::format("{} ({})", names.size(), fmt::join(names, ", "));
}

/// Which of the cores in the affinity mask are near each other.
Finding domains() try {
  const std::optional<Topology> given = settings::topology();
  std::set<std::string> caches, nodes;
  const std::string allowed = allowed_cores();
  for (std::size_t core = 0; core < allowed.size(); ++core) {
    if (allowed[core] != '1') continue;
    const std::string mask = std::string(core, '0') + '1';
    const Place place = given ? given->place_of(-1, mask) : place_of(mask);
    caches.insert(place.cache);
    nodes.insert(place.node);
  }
  return {.what = "caches and NUMA",
          .found = fmt::format("last-level caches: {}; NUMA nodes: {}{}", counted(caches), counted(nodes),
                               given ? fmt::format(", as {} says", *variable("TUTTI_TOPOLOGY")) : ""),
          .remedy = {}};
} catch (const Error& error) {
  return {.level = Level::fail,
          .what = "caches and NUMA",
          .found = error.what(),
          .remedy = "unset TUTTI_TOPOLOGY, or correct its file; docs/launching.md describes it"};
}

Finding memory() {
  std::ifstream file{"/proc/meminfo"};
  std::uint64_t total = 0, available = 0, kib = 0;
  for (std::string name, unit; file >> name >> kib; std::getline(file, unit)) {
    if (name == "MemTotal:") total = kib;
    if (name == "MemAvailable:") available = kib;
  }
  Finding finding{.what = "memory", .found = {}, .remedy = {}};
  finding.found = fmt::format("{:.1f} of {:.1f} GiB available", static_cast<double>(available) / (1 << 20),
                              static_cast<double>(total) / (1 << 20));
  if (available < (256U << 10)) {
    finding.level = Level::warn;
    finding.remedy = "free some memory: ranks need their buffers and a few MiB of slots for each peer on this host";
  }
  return finding;
}

std::string limit_text(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit); }

/// The connections that TUTTI_TCP_CONNECTIONS says; of a wrong value another check tells.
rlim_t connections_of_link() try {
  return environment::number("TUTTI_TCP_CONNECTIONS").value_or(1);
} catch (const Error&) {
  return 1;
}

/// A connection in both directions takes two descriptors, one to watch for reading and one for writing. Each peer of a
/// communicator may have a link for collectives and one for messages, whose connections are such, and a connection in
/// each direction for credit. 64 descriptors remain for the rest of the program.
Finding descriptors(int ranks) {
  constexpr rlim_t reserve = 64;
  const rlim_t most_of_peer = 4 * connections_of_link() + 2;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t peers = limit.rlim_cur > reserve ? (limit.rlim_cur - reserve) / most_of_peer : 0;
  Finding finding{.what = "open files", .found = {}, .remedy = {}};
  finding.found = fmt::format("limit {} (hard limit {}): enough for {} peers at {} descriptors each",
                              limit_text(limit.rlim_cur), limit_text(limit.rlim_max), peers, most_of_peer);
  const rlim_t wanted = ranks > 1 ? static_cast<rlim_t>(ranks - 1) : 32;
  if (peers < wanted) {
    finding.level = Level::warn;
    finding.remedy = fmt::format("ulimit -n {}", wanted * most_of_peer + reserve);
  }
  return finding;
}

Finding locked_memory() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string found =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{} KiB", limit.rlim_cur / 1024);
  return {.what = "locked memory", .found = "limit " + found + " (the transports lock none)", .remedy = {}};
}

}  // namespace

std::vector<Finding> check_machine(int ranks) {
  utsname system{};
  ::uname(&system);
  std::vector<std::string> tables;
  for (const compute::Table* table : compute::available_tables()) tables.emplace_back(table->isa);
  const std::string boot_id = first_word_of("/proc/sys/kernel/random/boot_id");
  return {
      {.what = "host", .found = host_name(), .remedy = {}},
      {.level = boot_id.empty() ? Level::warn : Level::ok,
       .what = "boot id",
       .found = boot_id.empty() ? "cannot be read" : boot_id,
       .remedy = "mount /proc: without the boot id ranks of one host do not recognise each other and use TCP"},
      {.what = "kernel",
       .found = fmt::format("{} {} ({})", system.sysname, system.release, system.machine),
       .remedy = {}},
      {.what = "instruction sets", .found = fmt::format("{} (last is used)", fmt::join(tables, ", ")), .remedy = {}},
      cores(ranks),
      domains(),
      memory(),
      descriptors(ranks),
      locked_memory(),
  };
}

}  // namespace tutti::cli
